/* Products with sparse matrices: linear layers and convolutions of every kind. */
#include "slices.h"

/* Rows after one chunk are finished while their sums are in the first cache. */
#define FINISHED_TOGETHER 8

/* The last block of columns, with what happens to finished sums. */
INLINE void NAME(last_block)(const Multiply *of, const Context *context, int64_t vectors, int64_t r0, int64_t r1, int64_t p,
                             const float *x, float *out)
{
    const Finish *finish = &of->finish;
    const End end = {finish->least, finish->inside ? finish->inside + p : 0};
    const int64_t last = of->rows.num_blocks - 1, step = of->out.stride;
    if (!finish->then) {
        NAME(block)(vectors, &of->rows, of->num_rows, last, r0, r1, x, of->bias, &end, out + r0 * step, step);
        return;
    }
    for (int64_t r = r0; r < r1; r += FINISHED_TOGETHER) {
        int64_t after = r + FINISHED_TOGETHER < r1 ? r + FINISHED_TOGETHER : r1;
        NAME(block)(vectors, &of->rows, of->num_rows, last, r, after, x, of->bias, &end, out + r * step, step);
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
    const int64_t most = multiply->tile < MAX_TILE ? multiply->tile : MAX_TILE;
    for (int64_t p = context->begin; p < context->end;) {
        int64_t left = (context->end - p + LANES - 1) / LANES, num_tiles = (left + most - 1) / most;
        int64_t vectors = (left + num_tiles - 1) / num_tiles; /* nearly equal tiles */
        for (int64_t b = 0; b < multiply->rows.num_blocks - 1; b++)
            NAME(block)(vectors, &multiply->rows, multiply->num_rows, b, r0, r1, in + p, multiply->bias, 0,
                        out + r0 * multiply->out.stride + p, multiply->out.stride);
        NAME(last_block)(multiply, context, vectors, r0, r1, p, in + p, out + p);
        p += vectors * LANES;
    }
    return 0;
}

KERNEL_OF(matrix_vector)
{
    const MatrixVector *product = of;
    const Slices *slices = &product->slices;
    const int64_t s0 = NAME(split_slices)(slices, context->part, context->num_parts);
    const int64_t s1 = NAME(split_slices)(slices, context->part + 1, context->num_parts);
    float *x = context->scratch;
    for (int64_t p = context->begin; p < context->end; p++) {
        const float *in = sg_at(context, product->in.buffer, product->in.offset + p * product->in_position);
        float *out = sg_at(context, product->out.buffer, product->out.offset + p * product->out_position);
        if (product->in.stride == 1) {
            x = (float *)(uintptr_t)in;
        } else {
            for (int64_t i = 0; i < product->num_inputs; i++)
                x[i] = in[i * product->in.stride];
        }
        NAME(slices)(slices, product->bias, product->finish.least == 0, s0, s1, x, out, product->out.stride);
        for (int64_t s = s0; product->finish.then && s < s1; s++) {
            for (int i = 0; i < 8; i++) {
                int64_t row = slices->row[8 * s + i];
                if (row >= 0)
                    NAME(pointwise_row)(product->finish.then, context, out + row * product->out.stride, row, p, 1);
            }
        }
    }
    return 0;
}
