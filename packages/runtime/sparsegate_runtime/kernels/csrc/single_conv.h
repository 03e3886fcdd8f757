/* A sparse convolution of one image, for one kind of processor: a part of variant.h. */

typedef float Half __attribute__((vector_size(2 * LANES), aligned(4)));
typedef int32_t HalfBits __attribute__((vector_size(2 * LANES), aligned(4)));

/* Copies every `step`-th pixel of a line to its phase of the next layer's padded input. */
INLINE void NAME(phases)(const int64_t step, const Layer *next, int64_t height, int64_t width, int64_t c, int64_t y,
                         const float *from, float *out)
{
    for (int64_t first = 0; first < step && first < width; first++) {
        float *to = out + NAME(place)(next, height, width, c, y, first);
        for (int64_t x = first; x < width; x += step)
            *to++ = from[x];
    }
}

/* Copies a line of pixels to the next layer's padded input. */
TARGET static void NAME(put_line)(const Layer *next, int64_t height, int64_t width, int64_t c, int64_t y,
                                  const float *from, float *out)
{
    if (next->stride_x == 1)
        memcpy(out + NAME(place)(next, height, width, c, y, 0), from, (size_t)width * sizeof(float));
    else if (next->stride_x == 2)
        NAME(phases)(2, next, height, width, c, y, from, out);
    else
        NAME(phases)(next->stride_x, next, height, width, c, y, from, out);
}

TARGET static void NAME(single_in)(const Task *task)
{
    const Chain *chain = task->chain;
    int64_t height = chain->in_height, width = chain->in_width;
    const float *from = task->in + task->first * chain->channels * height * width;
    for (int64_t l = task->part; l < chain->channels * height; l += task->num_parts)
        NAME(put_line)(chain->layers, height, width, l / height, l % height, from + l * width, task->buffer[0]);
}

/* ReLU of a line. */
INLINE void NAME(rectify_line)(Vector floor, int64_t width, const float *from, float *to)
{
    for (int64_t x = 0; x < width; x += LANES) {
        const Vector most = LARGER(floor, *NAME(at)(from + x, 0));
        const int64_t count = width - x < LANES ? width - x : LANES;
        STORE_FIRST(to + x, most, count);
    }
}

/* A max pool of two by two, sixteen windows at a time. */
INLINE void NAME(pool_two_line)(Vector floor, int64_t width, const float *from, int64_t line, float *to)
{
    for (int64_t x = 0; x < width; x += LANES, from += 2 * LANES) {
        Vector left = LARGER(*NAME(at)(from, 0), *NAME(at)(from + line, 0));
        Vector right = LARGER(*NAME(at)(from, 64), *NAME(at)(from + line, 64));
        Vector even = __builtin_shufflevector(left, right, EVEN), odd = __builtin_shufflevector(left, right, ODD);
        Vector most = LARGER(floor, LARGER(even, odd));
        int64_t count = width - x < LANES ? width - x : LANES;
        STORE_FIRST(to + x, most, count);
    }
}

INLINE void NAME(pool_line)(const Layer *layer, const float *from, int64_t line, float *to)
{
    for (int64_t x = 0; x < layer->out_width; x++) {
        float most = NAME(least_of)(layer);
        for (int64_t py = 0; py < layer->pool; py++)
            for (int64_t px = 0; px < layer->pool; px++) {
                float other = from[py * line + x * layer->pool_stride + px];
                most = most > other ? most : other; /* keeps a NaN, as torch does */
            }
        to[x] = most;
    }
}

/* Writes a row's sums to the next layer's input, after pool and ReLU. If that input has phases, a line is
 * pooled in place: no later window reads the sums that are overwritten. */
INLINE void NAME(single_pool)(const int pool, const Layer *layer, const Layer *next, int64_t line, float *sums, int64_t row,
                              float *out)
{
    const int is_image = next && !next->is_linear, has_phases = is_image && (next->stride_y > 1 || next->stride_x > 1);
    const Vector floor = NAME(all)(NAME(least_of)(layer));
    const int64_t height = layer->out_height, width = layer->out_width;
    const int64_t jump = is_image ? next->width : width;
    float *from = sums, *place = out + NAME(place)(next, height, width, row, 0, 0);
    for (int64_t y = 0; y < height; y++, from += (pool ? pool : layer->pool_stride) * line, place += jump) {
        float *to = has_phases ? from : place;
        if (pool == 1)
            NAME(rectify_line)(floor, width, from, to);
        else if (pool == 2)
            NAME(pool_two_line)(floor, width, from, line, to);
        else
            NAME(pool_line)(layer, from, line, to);
        if (has_phases)
            NAME(put_line)(next, height, width, row, y, from, out);
    }
}

TARGET static void NAME(single_pools)(const Layer *layer, const Layer *next, int64_t line, float *sums, int64_t row,
                                      float *out)
{
    const int pool = layer->pool == layer->pool_stride ? (int)layer->pool : 0;
    switch (pool) {
    case 1: NAME(single_pool)(1, layer, next, line, sums, row, out); break;
    case 2: NAME(single_pool)(2, layer, next, line, sums, row, out); break;
    default: NAME(single_pool)(0, layer, next, line, sums, row, out);
    }
}

/* ---- outputs that are at most eight wide: a line is half a vector ---- */

INLINE int NAME(is_narrow)(const Layer *layer)
{
    return layer->conv_width <= LANES / 2;
}

INLINE Half *NAME(half)(float *at)
{
    return (Half *)(void *)at;
}

INLINE Half NAME(half_at)(const float *at)
{
    return *(const Half *)(const void *)at;
}

/* Rows r0 .. r1 of one block of columns, on `tile` lines of the output. */
INLINE void NAME(narrow)(const int tile, const Layer *layer, int64_t block, int64_t r0, int64_t r1, const float *x,
                         const End *end, float *out, int64_t out_line, int64_t out_step)
{
    const Rows *rows = &layer->single;
    const int32_t *start = rows->start + block * (layer->rows + 1);
    const int64_t line = layer->width;
    for (int64_t r = r0; r < r1; r++) {
        float *to = out + (r - r0) * out_step;
        Half sum[8];
        UNROLL for (int t = 0; t < tile; t++)
        {
            sum[t] = block ? *NAME(half)(to + t * out_line) : layer->bias[r] - (Half){0};
        }
        for (int32_t k = start[r]; k < start[r + 1]; k++) {
            const float *from = (const float *)(const void *)NAME(at)(x, rows->offset[k]);
            const Half weight = rows->value[k] - (Half){0};
            UNROLL for (int t = 0; t < tile; t++) sum[t] += weight * NAME(half_at)(from + t * line);
        }
        if (end) {
            const Half least = end->least - (Half){0};
            const HalfBits inside = *(const HalfBits *)(const void *)end->inside;
            UNROLL for (int t = 0; t < tile; t++)
            {
                const HalfBits below = least > sum[t]; /* false for a NaN, which is kept */
                sum[t] = (Half)((((HalfBits)least & below) | ((HalfBits)sum[t] & ~below)) & inside);
            }
        }
        UNROLL for (int t = 0; t < tile; t++) *NAME(half)(to + t * out_line) = sum[t];
    }
}

#define NARROW(T)                                                                                                  \
    case T:                                                                                                        \
        NAME(narrow)(T, layer, b, r0, r1, in + y * layer->width, b == last ? end : 0, out + y * line, line, step); \
        break;

/* A row of sums has `step` floats, a line of it `line`. */
TARGET static void NAME(narrow_conv)(const Layer *layer, int64_t r0, int64_t r1, const float *in, const End *end,
                                     float *out, int64_t line, int64_t step)
{
    for (int64_t b = 0, last = layer->single.num_blocks - 1; b <= last; b++)
        for (int64_t y = 0; y < layer->conv_height; y += 8)
            switch (layer->conv_height - y < 8 ? layer->conv_height - y : 8) {
                NARROW(1) NARROW(2) NARROW(3) NARROW(4) NARROW(5) NARROW(6) NARROW(7) NARROW(8)
            }
}

/* ---- any width ---- */

TARGET static void NAME(wide_conv)(const Layer *layer, int64_t r0, int64_t r1, const float *in, const End *end,
                                   float *out, int64_t vectors, int64_t step)
{
    const int64_t tile = NAME(tile_for)(vectors);
    for (int64_t v = 0; v < vectors; v += tile) {
        const int64_t here = vectors - v < tile ? vectors - v : tile;
        const End mine = {end ? end->least : 0, end ? end->inside + v * LANES : 0, 0, 0, 0};
        NAME(rows)(here, &layer->single, layer->rows, r0, r1, in + v * LANES, layer->bias, end ? &mine : 0, out + v * LANES,
                   step);
    }
}

/* Sums are written to the next layer's input directly if its lines have the same length, and to scratch
 * memory if they must be pooled or moved. */
TARGET static void NAME(single_conv)(const Layer *layer, const Layer *next, int64_t r0, int64_t r1, const float *in,
                                     float *sums, float *out)
{
    const int is_direct = layer->inside != 0, is_narrow = NAME(is_narrow)(layer);
    const int64_t positions = (layer->conv_height - 1) * layer->width + layer->conv_width;
    const int64_t vectors = (positions + LANES - 1) / LANES;
    const int64_t line = is_direct || !is_narrow ? layer->width : LANES / 2;
    const int64_t step = is_direct ? next->height * next->width : is_narrow ? line * layer->conv_height : vectors * LANES;
    float *to = is_direct ? out + NAME(place)(next, layer->out_height, layer->out_width, r0, 0, 0) : sums;
    const End end = {NAME(least_of)(layer), layer->inside, 0, 0, 0};
    if (is_narrow)
        NAME(narrow_conv)(layer, r0, r1, in, is_direct ? &end : 0, to, line, step);
    else
        NAME(wide_conv)(layer, r0, r1, in, is_direct ? &end : 0, to, vectors, step);
    for (int64_t r = r0; r < r1 && !is_direct; r++)
        NAME(single_pools)(layer, next, line, sums + (r - r0) * step, r, out);
}
