/* Products of activations, by registers (`Part`, WIDTH floats). A part of engine_variant.h. */

#define ROWS 6                              /* rows of a product that are summed together */
#define WIDE (MAX_TILE >= 4 * ROWS ? 4 : 1) /* vectors of a row that are summed together */
#define PARTS (LANES / WIDTH)               /* registers of a vector */
#define MOST_PARTS (WIDE * PARTS)

/* ---- the micro-kernel ---- */

/* sum[r][t] = sum over k of row[r][k * row_step] * in[k * in_step + WIDTH * t], for k in 0 .. inner - 1. */
INLINE void NAME(products)(const int parts, const float *const row[ROWS], int64_t row_step, const float *in,
                           int64_t in_step, int64_t inner, Part sum[][MOST_PARTS])
{
    const float *r0 = row[0], *r1 = row[1], *r2 = row[2], *r3 = row[3], *r4 = row[4], *r5 = row[5];
    UNROLL for (int r = 0; r < ROWS; r++)
    {
        UNROLL for (int t = 0; t < parts; t++) sum[r][t] = NAME(every)(0);
    }
    for (int64_t k = 0, at = 0; k < inner; k++, at += row_step, in += in_step) {
        const float value[ROWS] = {r0[at], r1[at], r2[at], r3[at], r4[at], r5[at]};
                UNROLL for (int r = 0; r < ROWS; r++)
        {
            UNROLL for (int t = 0; t < parts; t++) sum[r][t] += value[r] * NAME(load)(in + t * WIDTH);
        }
    }
}

/* Pointers to up to six rows; those beyond the last repeat it, and their sums are not used. */
INLINE void NAME(rows_at)(const float *first, int64_t distance, int64_t count, const float *row[ROWS])
{
    UNROLL for (int r = 0; r < ROWS; r++) row[r] = first + (r < count ? r : count - 1) * distance;
}

/* ---- products of activations ---- */

#define INNER 256 /* products that are summed before the next columns */
#define HEIGHT 24 /* rows of a job */

/* Columns of `parts` registers of some rows of one product. */
INLINE void NAME(multiply_tile)(const int parts, const MatrixMultiply *multiply, const float *a, const float *b,
                                int64_t rows, float *out)
{
    const int64_t row_step = multiply->a.stride[3], inner_step = multiply->a.stride[4];
    const int64_t b_step = multiply->b.stride[3], out_step = multiply->out.stride[3];
    for (int64_t k = 0; k == 0 || k < multiply->inner; k += INNER) {
        const int64_t inner = multiply->inner - k < INNER ? multiply->inner - k : INNER;
        for (int64_t m = 0; m < rows; m += ROWS) {
            const float *row[ROWS];
            Part sum[ROWS][MOST_PARTS];
            NAME(rows_at)(a + m * row_step + k * inner_step, row_step, rows - m, row);
            NAME(products)(parts, row, inner_step, b + k * b_step, b_step, inner, sum);
            UNROLL for (int r = 0; r < ROWS; r++) if (m + r < rows)
            {
                float *to = out + (m + r) * out_step;
                UNROLL for (int t = 0; t < parts; t++)
                {
                    const Part sums = multiply->scale * sum[r][t];
                    NAME(save)(to + t * WIDTH, k ? NAME(load)(to + t * WIDTH) + sums : sums);
                }
            }
        }
    }
}

/* Fewer columns than a vector has lanes, one row at a time. */
TARGET static void NAME(multiply_narrow)(const MatrixMultiply *multiply, const float *a, const float *b, int64_t rows,
                                         int64_t columns, float *out)
{
    for (int64_t m = 0; m < rows; m++) {
        float sum[LANES] = {0};
        for (int64_t k = 0; k < multiply->inner; k++) {
            const float value = a[m * multiply->a.stride[3] + k * multiply->a.stride[4]];
            for (int64_t n = 0; n < columns; n++)
                sum[n] += value * b[k * multiply->b.stride[3] + n];
        }
        for (int64_t n = 0; n < columns; n++)
            out[m * multiply->out.stride[3] + n] = multiply->scale * sum[n];
    }
}

/* Columns n .. of some rows; a tile that is narrower than a vector overlaps the columns before. */
TARGET static void NAME(multiply_columns)(const MatrixMultiply *multiply, const float *a, const float *b, int64_t rows,
                                          int64_t columns, float *out)
{
    switch (columns < LANES ? 0 : columns / LANES) {
    case 0: NAME(multiply_narrow)(multiply, a, b, rows, columns, out); return;
    case 1: NAME(multiply_tile)(PARTS, multiply, a, b, rows, out); break;
#if WIDE > 1
    case 2: NAME(multiply_tile)(PARTS * 2, multiply, a, b, rows, out); break;
    case 3: NAME(multiply_tile)(PARTS * 3, multiply, a, b, rows, out); break;
    default: NAME(multiply_tile)(MOST_PARTS, multiply, a, b, rows, out);
#endif
    }
    if (columns % LANES)
        NAME(multiply_tile)(PARTS, multiply, a, b + columns - LANES, rows, out + columns - LANES);
}

KERNEL_OF(matrix_multiply)
{
    const MatrixMultiply *multiply = of;
    const int64_t *sa = multiply->a.stride, *sb = multiply->b.stride, *so = multiply->out.stride;
    const float *a = sg_at(context, multiply->a.buffer, multiply->a.offset);
    const float *b = sg_at(context, multiply->b.buffer, multiply->b.offset);
    float *out = sg_at(context, multiply->out.buffer, multiply->out.offset);
    const int64_t width = WIDE * LANES, whole = multiply->columns / width;
    const int64_t across = whole ? whole : 1; /* the last tile takes the columns that are left, too */
    const int64_t down = (multiply->rows + HEIGHT - 1) / HEIGHT;
    const int64_t jobs = multiply->columns ? multiply->batch[0] * multiply->batch[1] * multiply->batch[2] * across * down : 0;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t m = job % down * HEIGHT, tile = job / down % across, n = tile * width, i = job / down / across;
        const int64_t z = i % multiply->batch[2], y = i / multiply->batch[2] % multiply->batch[1];
        const int64_t x = i / multiply->batch[2] / multiply->batch[1];
        const float *from = a + x * sa[0] + y * sa[1] + z * sa[2] + m * sa[3], *in = b + x * sb[0] + y * sb[1] + z * sb[2] + n;
        float *to = out + x * so[0] + y * so[1] + z * so[2] + m * so[3] + n;
        const int64_t rows = multiply->rows - m < HEIGHT ? multiply->rows - m : HEIGHT;
        const int64_t columns = tile + 1 < across ? width : multiply->columns - n;
        int64_t done = 0;
        if (columns > width) {
            NAME(multiply_columns)(multiply, from, in, rows, width, to);
            /* what is left begins with whole vectors; fewer columns than a vector overlap those before */
            done = columns - width < LANES ? columns - LANES : width;
        }
        NAME(multiply_columns)(multiply, from, in + done, rows, columns - done, to + done);
    }
    return 0;
}
