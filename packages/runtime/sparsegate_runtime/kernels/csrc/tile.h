/* The micro-kernel of sparse matrices, and vectors of sixteen floats, for one kind of processor: a part of variant.h
 * and engine_variant.h. */
#include <math.h>
#include <string.h>

#include "chain.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE TARGET static inline __attribute__((always_inline))
#define BARRIER(task)                                                                                        \
    if ((task)->num_parts > 1) {                                                                             \
        _Pragma("omp barrier")                                                                               \
    }

/* A step of the transposition of sixteen vectors of sixteen: swaps lanes of pairs of vectors DISTANCE
 * apart. */
#define SWAP(a, b, DISTANCE, LOW, HIGH)                                                                      \
    UNROLL for (int i = 0; i < LANES; i++) if (!(i & DISTANCE))                                              \
    {                                                                                                        \
        b[i] = __builtin_shufflevector(a[i], a[i + DISTANCE], LOW);                                          \
        b[i + DISTANCE] = __builtin_shufflevector(a[i], a[i + DISTANCE], HIGH);                              \
    }
#define TRANSPOSE(a, b)                                                                                      \
    SWAP(a, b, 1, LOW_1, HIGH_1) SWAP(b, a, 2, LOW_2, HIGH_2) SWAP(a, b, 4, LOW_4, HIGH_4) SWAP(b, a, 8, LOW_8, HIGH_8)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Bits __attribute__((vector_size(4 * LANES), aligned(4)));

#ifndef PIECE
#define PIECE LANES /* floats of a register; a compiler keeps vectors of several registers in memory */
#endif
#define PIECES (LANES / PIECE)
typedef float Piece __attribute__((vector_size(4 * PIECE), aligned(4)));
typedef float Quad __attribute__((vector_size(16), aligned(4)));

#if PIECES > 1 /* sixteen vectors are in memory anyway: squares of four by four, in one function for all */
/* The square in rows `from`, four floats each, to rows `to`. */
INLINE void NAME(square)(const Quad from[4], float *to)
{
    const Quad a = __builtin_shufflevector(from[0], from[1], 0, 4, 1, 5);
    const Quad b = __builtin_shufflevector(from[2], from[3], 0, 4, 1, 5);
    const Quad c = __builtin_shufflevector(from[0], from[1], 2, 6, 3, 7);
    const Quad d = __builtin_shufflevector(from[2], from[3], 2, 6, 3, 7);
    *(Quad *)(void *)to = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    *(Quad *)(void *)(to + LANES) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    *(Quad *)(void *)(to + 2 * LANES) = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    *(Quad *)(void *)(to + 3 * LANES) = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

TARGET static __attribute__((noinline)) void NAME(transposed)(Vector vectors[LANES])
{
    float *a = (float *)(void *)vectors;
    for (int y = 0; y < LANES; y += 4)
        for (int x = 0; x <= y; x += 4) {
            Quad one[4], other[4];
            UNROLL for (int i = 0; i < 4; i++)
            {
                one[i] = *(const Quad *)(const void *)(a + (y + i) * LANES + x);
                other[i] = *(const Quad *)(const void *)(a + (x + i) * LANES + y);
            }
            NAME(square)(one, a + x * LANES + y);
            NAME(square)(other, a + y * LANES + x);
        }
}
#define TRANSPOSED(a) NAME(transposed)(a);
#else
#define TRANSPOSED(a)       \
    {                       \
        Vector b[LANES];    \
        TRANSPOSE(a, b)     \
    }
#endif

/* What happens to a finished sum. */
typedef struct {
    float least;           /* the lower bound: zero for a ReLU */
    const int32_t *inside; /* a mask that sets lanes to zero, or NULL */
    float most;            /* the upper bound: six for a ReLU6; none if it is not above zero */
    const float *added;    /* what is added to the sums before the bounds, from the first row on; or NULL */
    int64_t added_step;    /* from row to row */
} End;

INLINE Vector NAME(all)(float value)
{
    return value - (Vector){0};
}

INLINE const Vector *NAME(at)(const float *base, int64_t bytes)
{
    return (const Vector *)(const void *)((const char *)base + bytes);
}

INLINE Piece NAME(same_piece)(float value)
{
    return value - (Piece){0};
}

/* One vector of finished sums. Keeps a NaN. */
INLINE void NAME(finish)(const End *end, int t, Vector sum, Vector *to)
{
    sum = LARGER(NAME(all)(end->least), sum);
    if (end->most > 0)
        sum = -LARGER(NAME(all)(-end->most), -sum);
    if (end->inside)
        sum = (Vector)((Bits)sum & ((const Bits *)(const void *)end->inside)[t]);
    *to = sum;
}

/* Writes the finished sums of `tile` vectors. */
INLINE void NAME(finish_all)(const int tile, const End *end, const Piece *sum, Vector *to)
{
    if (!end || PIECES > 1)
        UNROLL for (int t = 0; t < tile * PIECES; t++) ((Piece *)(void *)to)[t] = sum[t];
    if (!end)
        return;
    const Vector *from = PIECES > 1 ? to : (const Vector *)(const void *)sum;
    if (end->inside || end->most > 0) {
        UNROLL for (int t = 0; t < tile; t++) NAME(finish)(end, t, from[t], to + t);
    } else {
        UNROLL for (int t = 0; t < tile; t++) to[t] = LARGER(NAME(all)(end->least), from[t]);
    }
}

/* Rows r0 .. r1 of one block of columns, on `tile` vectors of x that lie `apart` vectors apart: sums go to
 * out + r * out_step, start at the bias in the first block, and are finished as `end` says. A small tile uses several
 * accumulators per vector, so that a weight need not wait for the one before. */
INLINE void NAME(tile)(const int tile, const int64_t apart, const Rows *rows, const int64_t num_rows, int64_t block,
                       int64_t r0, int64_t r1, const float *x, const float *bias, const End *end, float *out,
                       int64_t out_step)
{
    const int chains = tile >= (MAX_TILE >= 14 ? 7 : 4) ? 1 : tile >= 2 ? 2 : 4, parts = tile * PIECES;
    const int32_t *start = rows->start + block * (num_rows + 1);
    const int32_t *offset = rows->offset;
    const float *value = rows->value;
    for (int64_t r = r0; r < r1; r++) {
        Piece *to = (Piece *)(void *)(out + (r - r0) * out_step);
        Piece sum[(MAX_TILE < 6 ? 6 : MAX_TILE) * PIECES];
        UNROLL for (int t = 0; t < parts; t++) sum[t] = block ? to[t] : NAME(same_piece)(bias[r]);
        UNROLL for (int t = parts; t < parts * chains; t++) sum[t] = NAME(same_piece)(0);
        int32_t k = start[r], after = start[r + 1];
        for (; k + chains <= after; k += chains) {
            UNROLL for (int c = 0; c < chains; c++)
            {
                const Piece *from = (const Piece *)(const void *)NAME(at)(x, offset[k + c]);
                const Piece weight = NAME(same_piece)(value[k + c]);
                UNROLL for (int t = 0; t < parts; t++)
                    sum[c * parts + t] += weight * from[t / PIECES * apart * PIECES + t % PIECES];
            }
        }
        for (; k < after; k++) {
            const Piece *from = (const Piece *)(const void *)NAME(at)(x, offset[k]);
            const Piece weight = NAME(same_piece)(value[k]);
            UNROLL for (int t = 0; t < parts; t++) sum[t] += weight * from[t / PIECES * apart * PIECES + t % PIECES];
        }
        UNROLL for (int c = 1; c < chains; c++)
        {
            UNROLL for (int t = 0; t < parts; t++) sum[t] += sum[c * parts + t];
        }
        if (end && end->added) {
            const Piece *more = (const Piece *)(const void *)(end->added + (r - r0) * end->added_step);
            UNROLL for (int t = 0; t < parts; t++) sum[t] += more[t];
        }
        NAME(finish_all)(tile, end, sum, (Vector *)(void *)to);
    }
}

#define CASE(T)                                                                                                       \
    case T:                                                                                                           \
        NAME(tile)(T, 1, rows, num_rows, block, r0, r1, x, bias, end, out, out_step);                                 \
        break;

/* Rows r0 .. r1 of one block of columns, on `tile` vectors. */
TARGET static void NAME(block)(int64_t tile, const Rows *rows, int64_t num_rows, int64_t block, int64_t r0, int64_t r1,
                               const float *x, const float *bias, const End *end, float *out, int64_t out_step)
{
    switch (tile) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if MAX_TILE > 6
        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24) CASE(25)
        CASE(26) CASE(27) CASE(28)
#endif
    }
}

/* All blocks of columns in order, so that all rows use a block's inputs while they are in the cache. */
INLINE void NAME(rows)(int64_t tile, const Rows *rows, int64_t num_rows, int64_t r0, int64_t r1, const float *x,
                       const float *bias, const End *end, float *out, int64_t out_step)
{
    for (int64_t b = 0, last = rows->num_blocks - 1; b <= last; b++)
        NAME(block)(tile, rows, num_rows, b, r0, r1, x, bias, b == last ? end : 0, out, out_step);
}

/* The width of the next tile: `vectors` are split into nearly equal tiles. */
INLINE int64_t NAME(tile_for)(int64_t vectors)
{
    int64_t num_tiles = (vectors + MAX_TILE - 1) / MAX_TILE;
    return (vectors + num_tiles - 1) / num_tiles;
}

/* This thread's rows: they have about the same number of weights for every thread. */
INLINE int64_t NAME(split)(const int64_t *work, int64_t rows, int64_t part, int64_t num_parts)
{
    int64_t wanted = work[rows] * part / num_parts, low = 0, high = rows;
    if (part == num_parts)
        return rows;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (work[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
