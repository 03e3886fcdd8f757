/* Products of matrices with one vector: by slices of rows, by panels, or dense. A part of engine_variant.h. */

#define PANEL_COLUMNS 128 /* columns of a block: as many floats as eight registers of AVX-512 hold */

#ifdef PICK_OF_BLOCK /* the sixteen floats of a block of 128 that sixteen bytes name */
typedef struct {
    Vector part[PANEL_COLUMNS / LANES];
} Block;

INLINE Block NAME(block_of)(const float *x)
{
    Block block;
    UNROLL for (int i = 0; i < PANEL_COLUMNS / LANES; i++) block.part[i] = *(const Vector *)(const void *)(x + i * LANES);
    return block;
}

PICK_OF_BLOCK_FUNCTION
#else
typedef struct {
    const float *x;
} Block;

INLINE Block NAME(block_of)(const float *x)
{
    return (Block){x};
}

INLINE Vector NAME(pick_of_block)(const Block *block, const uint8_t *column)
{
    Vector picked;
    UNROLL for (int i = 0; i < LANES; i++) picked[i] = block->x[column[i]];
    return picked;
}
#define PICK_OF_BLOCK(block, column) NAME(pick_of_block)(block, column)
#endif

/* Adds the products of one panel of rows to its sums; those of rows that do not exist go to a sum behind the last. */
TARGET static void NAME(panel)(const Panels *panels, int64_t panel, const float *x, float *sums)
{
    const int64_t slices = panels->rows / LANES;
    for (int64_t b = 0; b < panels->num_blocks; b++) {
        const Block block = NAME(block_of)(x + b * PANEL_COLUMNS);
        const int64_t first = (panel * panels->num_blocks + b) * slices;
        for (int64_t s = first; s < first + slices; s++) {
            const int64_t begin = panels->start[s], end = panels->start[s + 1];
            const float *value = panels->value + begin * LANES;
            const uint8_t *column = panels->column + begin * LANES;
            const uint16_t *row = panels->row + s * LANES;
            Vector sum = {0};
            for (int64_t k = begin; k < end; k++, value += LANES, column += LANES) {
                __builtin_prefetch(value + 512);
                __builtin_prefetch(column + 512);
                sum += *(const Vector *)(const void *)value * PICK_OF_BLOCK(&block, column);
            }
            if (begin < end)
                for (int i = 0; i < LANES; i++)
                    sums[row[i]] += sum[i];
        }
    }
}

/* Rows r0 .. r1 of a matrix with all of its weights. */
TARGET static void NAME(dense_rows)(const MatrixVector *of, int64_t r0, int64_t r1, const float *x, float *out, int64_t out_step)
{
    const int64_t step = (of->num_inputs + LANES - 1) / LANES * LANES;
    for (int64_t r = r0; r < r1; r += 4) {
        const int64_t rows = r1 - r < 4 ? r1 - r : 4;
        const float *weight[4];
        Part sum[4];
        UNROLL for (int i = 0; i < 4; i++)
        {
            weight[i] = of->dense + (r + (i < rows ? i : 0)) * step;
            sum[i] = NAME(every)(0);
        }
        for (int64_t k = 0; k < step; k += WIDTH) {
            const Part some = NAME(load)(x + k);
            UNROLL for (int i = 0; i < 4; i++) sum[i] += NAME(load)(weight[i] + k) * some;
        }
        for (int i = 0; i < rows; i++)
            out[(r + i) * out_step] = NAME(sum_of)(sum[i]) + of->bias[r + i];
    }
}

/* The functions that follow on all rows of one position, which are neighbours. */
TARGET static void NAME(pointwise_column)(const Pointwise *of, const Context *context, float *out, int64_t rows, int64_t p)
{
    const float *in[MOST_INPUTS] = {out};
    int64_t stride[MOST_INPUTS] = {1};
    for (int64_t i = 1; i < of->num_inputs; i++) {
        const View *view = of->in + i;
        stride[i] = view->stride[0];
        in[i] = sg_at(context, view->buffer, view->offset + (view->stride[1] == REPEATS ? 0 : p * view->stride[1]));
    }
    for (int64_t r = 0; r < rows; r += CHUNK) {
        const int64_t here = rows - r < CHUNK ? rows - r : CHUNK;
        NAME(code)(of, in, stride, out + r, here);
        for (int64_t i = 0; i < of->num_inputs; i++)
            in[i] += here * stride[i];
    }
    if (of->inside && !of->inside[p])
        memset(out, 0, (size_t)rows * sizeof(float));
}

/* The rows of slices s0 .. s1 that functions follow on, one by one. */
INLINE void NAME(finish_slices)(const MatrixVector *of, const Context *context, int64_t s0, int64_t s1, float *out, int64_t p)
{
    for (int64_t s = s0; s < s1; s++)
        for (int i = 0; i < 8; i++) {
            const int32_t row = of->slices.row[8 * s + i];
            if (row >= 0)
                NAME(pointwise_row)(of->finish.then, context, out + row * of->out.stride, row, p, 1);
        }
}

/* The input of one position without gaps, zeros behind it up to a whole block. */
INLINE void NAME(gather_input)(const MatrixVector *of, const float *in, float *x)
{
    const int64_t count = of->num_inputs, room = (count + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS;
    if (of->in.stride == 1)
        memcpy(x, in, (size_t)count * sizeof(float));
    else
        for (int64_t i = 0; i < count; i++)
            x[i] = in[i * of->in.stride];
    memset(x + count, 0, (size_t)(room - count) * sizeof(float));
}

/* Rows r0 .. r1 by whole panels. */
INLINE void NAME(panel_rows)(const MatrixVector *of, int64_t r0, int64_t r1, const float *x, float *sums, float *out)
{
    const int64_t height = of->panels.rows;
    for (int64_t r = r0; r < r1; r += height) {
        const int64_t rows = r1 - r < height ? r1 - r : height;
        memcpy(sums, of->bias + r, (size_t)rows * sizeof(float));
        NAME(panel)(&of->panels, r / height, x, sums);
        for (int64_t i = 0; i < rows; i++)
            out[(r + i) * of->out.stride] = sums[i];
    }
}

KERNEL_OF(matrix_vector)
{
    const MatrixVector *product = of;
    const int relu = product->finish.least == 0, alone = context->num_parts == 1;
    const int64_t unit = product->panels.num_panels ? product->panels.rows : 1, units = (product->num_rows + unit - 1) / unit;
    const int64_t r0 = unit * (units * context->part / context->num_parts);
    const int64_t to = unit * (units * (context->part + 1) / context->num_parts), r1 = to < product->num_rows ? to : product->num_rows;
    const int by_slices = !product->panels.num_panels && !product->dense;
    const int64_t s0 = by_slices ? NAME(split_slices)(&product->slices, context->part, context->num_parts) : 0;
    const int64_t s1 = by_slices ? NAME(split_slices)(&product->slices, context->part + 1, context->num_parts) : 0;
    float *x = context->scratch, *sums = x + (product->num_inputs + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS;
    for (int64_t p = context->begin; p < context->end; p++) {
        const float *in = sg_at(context, product->in.buffer, product->in.offset + p * product->in_position);
        float *out = sg_at(context, product->out.buffer, product->out.offset + p * product->out_position);
        NAME(gather_input)(product, in, x);
        if (by_slices)
            NAME(slices)(&product->slices, product->bias, relu, s0, s1, x, out, product->out.stride);
        else if (product->dense)
            NAME(dense_rows)(product, r0, r1, x, out, product->out.stride);
        else
            NAME(panel_rows)(product, r0, r1, x, sums, out);
        for (int64_t r = r0; !by_slices && relu && r < r1; r++) {
            float *at = out + r * product->out.stride;
            *at = *at < 0 ? 0 : *at;
        }
        if (!product->finish.then)
            continue;
        if (product->out.stride == 1 && alone)
            NAME(pointwise_column)(product->finish.then, context, out, product->num_rows, p);
        else if (by_slices)
            NAME(finish_slices)(product, context, s0, s1, out, p);
        else
            for (int64_t r = r0; r < r1; r++)
                NAME(pointwise_row)(product->finish.then, context, out + r * product->out.stride, r, p, 1);
    }
    return 0;
}
