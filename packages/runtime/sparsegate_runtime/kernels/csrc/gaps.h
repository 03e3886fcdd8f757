/* The cursor that the decoders of the format gaps share, and their interface. */
#ifndef SPARSEGATE_GAPS_H
#define SPARSEGATE_GAPS_H

#include <stdint.h>

#include "words.h"

#define BLOCK 512 /* kept elements whose positions are found at a time: a multiple of 64 that fits into the cache */

typedef struct {
    const uint8_t *quotients; /* [num_bytes] */
    int64_t num_bytes;
    const uint8_t *planes; /* [rice][plane_bytes], the lowest bits first */
    int64_t plane_bytes;
    int rice;
} Gaps;

/* A position before a kept element. */
typedef struct {
    const Gaps *gaps;
    int64_t next;  /* the element's number, a multiple of 64 */
    int64_t sum;   /* of the remainders before it */
    int64_t at;    /* index of the first byte of the word in the quotients */
    uint64_t word; /* eight bytes of quotients, with the bits of earlier elements cleared */
} Cursor;

/* A decoder: in plain C, or for some processors. */
typedef struct {
    /* Finds the positions of the next `count` elements, at most BLOCK, and advances; may write anything to
     * `out` after them. */
    void (*positions)(Cursor *cursor, int64_t count, int64_t out[BLOCK]);
    /* Copies a window, past the caches if the processor can, as a tensor is larger. Clears the window. */
    void (*move)(char *to, char *window, int64_t num_bytes);
} Way;

/* The decoder for AVX-512, or NULL if the processor or the compiler lacks it; for tensors below 2^32
 * elements. */
const Way *avx512_way(void);

#endif
