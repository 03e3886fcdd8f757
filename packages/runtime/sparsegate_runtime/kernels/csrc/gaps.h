/* What the ways to decode the format gaps share: where they are in the bits, and what each of them brings. */
#ifndef SPARSEGATE_GAPS_H
#define SPARSEGATE_GAPS_H

#include <stdint.h>

#include "words.h"

#define BLOCK 512 /* kept elements whose positions are found at a time: a multiple of 64, few enough for the cache */

typedef struct {
    const uint8_t *quotients; /* [num_bytes] */
    int64_t num_bytes;
    const uint8_t *planes; /* [rice][plane_bytes], the lowest bits first */
    int64_t plane_bytes;
    int rice;
} Gaps;

/* Before one of the kept elements. */
typedef struct {
    const Gaps *gaps;
    int64_t next;  /* the element's number, a multiple of 64 */
    int64_t sum;   /* of the remainders before it */
    int64_t at;    /* the quotients' byte where the word begins */
    uint64_t word; /* eight bytes of quotients, without the ones of elements before it */
} Cursor;

/* One way to decode: in plain C, or with what some processors have. */
typedef struct {
    /* Finds the positions of the next `count` elements, BLOCK at the most, and moves on; what follows them in `out` may
     * be anything. */
    void (*positions)(Cursor *cursor, int64_t count, int64_t out[BLOCK]);
    /* Copies a window past the caches, where the processor can: a tensor is larger. Leaves zeros in the window. */
    void (*move)(char *to, char *window, int64_t num_bytes);
} Way;

/* The way for AVX-512, or NULL where the processor or the compiler has none; for tensors below 2^32 elements. */
const Way *avx512_way(void);

#endif
