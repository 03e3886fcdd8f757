/* Products with sparse matrices: linear layers and convolutions of every kind. */
#include "slices.h"

/* Rows after one chunk are finished while their sums are in the first cache. */
#define FINISHED_TOGETHER 8

#ifndef IMAGES_ALONE /* program images hold no plans for images that lie side by side */
#define CASE_APART(T)                                                                                                 \
    case T:                                                                                                           \
        NAME(tile)(T, apart, rows, num_rows, block, r0, r1, x, bias, end, out, out_step);                             \
        break;

/* Rows r0 .. r1 of one block of columns, on `tile` vectors that lie `apart` vectors apart. */
TARGET static void NAME(block_apart)(int64_t tile, int64_t apart, const Rows *rows, int64_t num_rows, int64_t block,
                                     int64_t r0, int64_t r1, const float *x, const float *bias, const End *end,
                                     float *out, int64_t out_step)
{
    switch (tile) {
        CASE_APART(1) CASE_APART(2) CASE_APART(3) CASE_APART(4) CASE_APART(5) CASE_APART(6)
#if MAX_TILE > 6
        CASE_APART(7) CASE_APART(8) CASE_APART(9) CASE_APART(10) CASE_APART(11) CASE_APART(12) CASE_APART(13) CASE_APART(14) CASE_APART(15)
        CASE_APART(16)
#endif
    }
}
#endif

/* A block of columns, whose inputs may lie apart. */
INLINE void NAME(any_block)(const Multiply *of, int64_t vectors, int64_t block, int64_t r0, int64_t r1, const float *x,
                            const End *end, float *out)
{
#ifndef IMAGES_ALONE
    const int64_t pixels = of->apart.line ? of->apart.pixels : 1;
    if (pixels != 1)
        NAME(block_apart)
        (vectors, pixels, &of->rows, of->num_rows, block, r0, r1, x, of->bias, end, out, of->out.stride);
    else
#endif
        NAME(block)(vectors, &of->rows, of->num_rows, block, r0, r1, x, of->bias, end, out, of->out.stride);
}

/* The last block of columns, with what happens to finished sums. */
INLINE void NAME(last_block)(const Multiply *of, const Context *context, int64_t vectors, int64_t r0, int64_t r1, int64_t p,
                             const float *x, float *out)
{
    const Finish *finish = &of->finish;
    const float *added = finish->adds ? sg_at(context, finish->added.buffer, finish->added.offset + p) : 0;
    const int64_t added_step = finish->added.stride;
    End end = {finish->least, finish->inside ? finish->inside + p : 0, finish->most, 0, added_step};
    const int64_t last = of->rows.num_blocks - 1, step = of->out.stride;
    if (!finish->then) {
        end.added = added ? added + r0 * added_step : 0;
        NAME(any_block)(of, vectors, last, r0, r1, x, &end, out + r0 * step);
        return;
    }
    for (int64_t r = r0; r < r1; r += FINISHED_TOGETHER) {
        int64_t after = r + FINISHED_TOGETHER < r1 ? r + FINISHED_TOGETHER : r1;
        end.added = added ? added + r * added_step : 0;
        NAME(any_block)(of, vectors, last, r, after, x, &end, out + r * step);
        for (int64_t row = r; row < after; row++)
            NAME(pointwise_row)(finish->then, context, out + row * step, row, p, vectors * LANES);
    }
}

KERNEL_OF(multiply)
{
    const Multiply *multiply = of;
    const int64_t r0 = NAME(split)(multiply->work, multiply->num_rows, context->part, context->num_parts);
    const int64_t r1 = NAME(split)(multiply->work, multiply->num_rows, context->part + 1, context->num_parts);
    const float *in = sg_at(context, multiply->in.buffer, multiply->in.offset);
    float *out = sg_at(context, multiply->out.buffer, multiply->out.offset);
    int64_t most = multiply->tile < MAX_TILE ? multiply->tile : MAX_TILE;
    if (multiply->apart.line && most > 16)
        most = 16; /* block_apart has no larger ones */
    for (int64_t p = context->begin; p < context->end;) {
        int64_t left = (context->end - p + LANES - 1) / LANES, num_tiles = (left + most - 1) / most;
        int64_t vectors = (left + num_tiles - 1) / num_tiles; /* nearly equal tiles */
        const float *x = in + sg_source(&multiply->apart, p);
        for (int64_t b = 0; b < multiply->rows.num_blocks - 1; b++)
            NAME(any_block)(multiply, vectors, b, r0, r1, x, 0, out + r0 * multiply->out.stride + p);
        NAME(last_block)(multiply, context, vectors, r0, r1, p, x, out + p);
        p += vectors * LANES;
    }
    return 0;
}
