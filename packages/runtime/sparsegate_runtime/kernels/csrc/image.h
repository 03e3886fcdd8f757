/* Program images: a planned program of the engine as one block of bytes without pointers. docs/formats/image.md has the
 * format byte by byte.
 *
 * An image is loaded from memory of the caller and stays there: weights are read where they lie. Loading checks the
 * checksum, every number and every index, so that no image makes a kernel read or write outside of its memory. Loading
 * and running allocate nothing.
 */
#ifndef SPARSEGATE_IMAGE_H
#define SPARSEGATE_IMAGE_H

#include <stdint.h>

#include "engine.h"

#define IMAGE_VERSION 1
#define IMAGE_GUARD 512    /* floats around the arena, and at the end of an image, that kernels may read */
#define IMAGE_LIMIT ((int64_t)1 << 40) /* no number of an image is larger */
#define IMAGE_DIMS 8

enum ImageError {
    IMAGE_OK, IMAGE_SHORT, IMAGE_OTHER, IMAGE_VERSION_NEW, IMAGE_CHECKSUM, IMAGE_UNALIGNED, IMAGE_ROOM, IMAGE_HEADER,
    IMAGE_TENSOR, IMAGE_BUFFER, IMAGE_STEP, IMAGE_KIND, IMAGE_NUMBER, IMAGE_WEIGHTS, IMAGE_ACCESS, IMAGE_SCRATCH,
    IMAGE_BAD_INDEX, IMAGE_THREADS, IMAGE_NUM_ERRORS
};

enum { TENSOR_FLOAT, TENSOR_LONG, TENSOR_BOOL }; /* of four, eight and one bytes */
enum { BUFFER_INPUT, BUFFER_OUTPUT, BUFFER_CONSTANT };

/* An input or output of the network. */
typedef struct {
    int32_t kind, dims;
    int64_t shape[IMAGE_DIMS];
    int64_t buffer; /* an output in the buffer of an input is a copy of that input */
    char name[48];  /* ends with a zero */
} SgTensor;

/* A buffer of a call, from number 1 on. */
typedef struct {
    int64_t kind, index; /* which input or output */
    int64_t at, bytes;   /* of a constant, from the start of the image */
} ImageBuffer;

/* Followed by tensors (inputs, then outputs), buffers, kinds of operations (8 bytes each), steps, the structures of the
 * operations in order (each followed by the Pointwise of its Finish, if it has one), zeros up to a multiple of 64, and
 * data. The last 4 * IMAGE_GUARD bytes are zero. */
typedef struct {
    char magic[8];
    uint32_t version, checksum; /* CRC-32 of all bytes from `size` on */
    int64_t size;               /* of the image, in bytes */
    int64_t variant;            /* the instruction set that it was planned for */
    int64_t arena, scratch;     /* floats */
    int64_t num_inputs, num_outputs, num_buffers, num_operations, num_steps;
    int64_t structures; /* bytes of all structures */
} ImageHeader;

/* A loaded image; it begins in the room that the caller gave. */
typedef struct {
    const ImageHeader *header;
    const SgTensor *tensors;
    const ImageBuffer *buffers;
    const uint8_t *bytes;
    Program program;
    int64_t variant; /* whose kernels run it */
} SgImage;

/* The positions of an operation in all of its steps; `whole` is the end if each step takes whole vectors. */
typedef struct {
    int64_t begin, end, whole;
} Extent;

/* What the structure of an operation is checked against. */
typedef struct {
    const ImageHeader *header;
    const uint8_t *bytes;
    const ImageBuffer *buffers;
    int64_t data; /* where the data begins */
    Extent extent;
    int64_t error;
} Check;

/* The size of the structure of a kind; 0 for a kind that does not exist. */
int64_t sg_structure_size(int64_t kind);
/* Where the Finish of a structure is; NULL if it has none. */
Finish *sg_finish_of(int64_t kind, void *of);
/* Checks a structure, and turns the numbers of bytes in it into pointers. `then` is the structure that follows, or
 * NULL. Returns an error. */
int64_t sg_check_structure(Check *check, int64_t kind, void *of, Pointwise *then);

#endif
