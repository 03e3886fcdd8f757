/* Dense products: linear layers and convolutions whose rows all read the same inputs. A part of engine_variant.h. */

#define GROUP 4                               /* rows that are summed together */
#define DENSE_TILE (MAX_TILE >= 6 * GROUP ? 6 : 1) /* vectors that are summed together */

/* Where a tile is: its first position, and the positions that are written. */
typedef struct {
    int64_t begin, count;
} Positions;

/* A mask, with no lane set beyond `count`, so that nothing beyond its end is read. */
INLINE PartBits NAME(mask_first)(const int32_t *mask, int64_t count)
{
    PartBits some = {0};
    if (count >= WIDTH)
        return *(const PartBits *)(const void *)mask;
    if (count > 0)
        memcpy(&some, mask, (size_t)count * sizeof(int32_t));
    return some;
}

/* Inputs k0 .. k1 - 1 of one group of rows. Sums begin at the bias, or at those of earlier inputs in out. */
INLINE void NAME(dense_sums)(const int parts, const DenseMultiply *dense, int64_t g, int64_t k0, int64_t k1, const float *x,
                             const float *out, Part sum[GROUP][DENSE_TILE * LANES / WIDTH])
{
    const int64_t first = g * GROUP, last = dense->num_rows - 1;
    UNROLL for (int r = 0; r < GROUP; r++)
    {
        const int64_t row = first + r < last ? first + r : last;
        const float *earlier = out + (row - first) * dense->out.stride;
        UNROLL for (int t = 0; t < parts; t++) sum[r][t] =
            k0 ? NAME(load)(earlier + t * WIDTH) : NAME(every)(dense->bias[row]);
    }
    const float *weight = dense->weight + (g * dense->num_inputs + k0) * GROUP;
    for (int64_t k = k0; k < k1; k++, weight += GROUP) {
        const float *from = (const float *)(const void *)NAME(at)(x, dense->offset[k]);
        UNROLL for (int r = 0; r < GROUP; r++)
        {
            UNROLL for (int t = 0; t < parts; t++) sum[r][t] += weight[r] * NAME(load)(from + t * WIDTH);
        }
    }
}

/* A block of inputs of one group of rows, finished if it is the last one. */
INLINE void NAME(dense_group)(const int parts, const DenseMultiply *dense, const Context *context, int64_t g, int64_t k0,
                              int64_t k1, Positions positions, const float *x, float *out)
{
    const Finish *finish = &dense->finish;
    const int64_t first = g * GROUP, left = dense->num_rows - first, rows = left < GROUP ? left : GROUP;
    const int is_last = k1 == dense->num_inputs;
    Part sum[GROUP][DENSE_TILE * LANES / WIDTH];
    out += first * dense->out.stride;
    NAME(dense_sums)(parts, dense, g, k0, k1, x, out, sum);
    if (is_last) {
        if (finish->adds) {
            const float *more = sg_at(context, finish->added.buffer, finish->added.offset + positions.begin);
            UNROLL for (int r = 0; r < GROUP; r++)
            {
                const float *from = more + (first + (r < rows ? r : 0)) * finish->added.stride;
                UNROLL for (int t = 0; t < parts; t++) sum[r][t] += NAME(load)(from + t * WIDTH);
            }
        }
        const Part least = NAME(every)(finish->least), most = NAME(every)(finish->most > 0 ? finish->most : INFINITY);
        UNROLL for (int t = 0; t < parts; t++)
        {
            UNROLL for (int r = 0; r < GROUP; r++) sum[r][t] = SMALLER_PART(most, LARGER_PART(least, sum[r][t]));
            if (finish->inside) {
                const int64_t at = t * WIDTH;
                const PartBits mask = NAME(mask_first)(finish->inside + positions.begin + at, positions.count - at);
                UNROLL for (int r = 0; r < GROUP; r++) sum[r][t] = (Part)((PartBits)sum[r][t] & mask);
            }
        }
    }
    UNROLL for (int r = 0; r < GROUP; r++) if (r < rows)
    {
        float *to = out + r * dense->out.stride;
        UNROLL for (int t = 0; t < parts; t++)
        {
            const int64_t rest = positions.count - t * WIDTH;
            if (rest >= WIDTH)
                NAME(save)(to + t * WIDTH, sum[r][t]);
            else if (rest > 0) {
                const Part last = sum[r][t]; /* whose address is taken, so that the sums can stay in registers */
                STORE_FIRST(to + t * WIDTH, last, rest);
            }
        }
    }
    for (int64_t r = 0; is_last && finish->then && r < rows; r++)
        NAME(pointwise_row)(finish->then, context, out + r * dense->out.stride, first + r, positions.begin, positions.count);
}

/* All inputs of groups g0 .. g1 - 1 for one tile of positions, by blocks that stay in the first cache. */
INLINE void NAME(dense_tile)(const int parts, const DenseMultiply *dense, const Context *context, int64_t g0, int64_t g1,
                             Positions positions, const float *x, float *out)
{
    const int64_t block = dense->block > 0 ? dense->block : dense->num_inputs;
    for (int64_t k = 0; k == 0 || k < dense->num_inputs; k += block) {
        const int64_t end = k + block < dense->num_inputs ? k + block : dense->num_inputs;
        for (int64_t g = g0; g < g1; g++)
            NAME(dense_group)(parts, dense, context, g, k, end, positions, x, out);
    }
}

#define DENSE_CASE(T) \
    case T:                                                                                                   \
        NAME(dense_tile)(T * (LANES / WIDTH), dense, context, g0, g1, positions, in + p, out + p);        \
        break;

KERNEL_OF(dense_multiply)
{
    const DenseMultiply *dense = of;
    const float *in = sg_at(context, dense->in.buffer, dense->in.offset);
    float *out = sg_at(context, dense->out.buffer, dense->out.offset);
    const int64_t part = context->part, parts = context->num_parts, groups = (dense->num_rows + GROUP - 1) / GROUP;
    const int by_groups = groups >= 2 * parts; /* threads share the rows, or the positions if there are few rows */
    const int64_t g0 = by_groups ? groups * part / parts : 0, g1 = by_groups ? groups * (part + 1) / parts : groups;
    const int64_t vectors = (context->end - context->begin + LANES - 1) / LANES;
    const int64_t v0 = by_groups ? 0 : vectors * part / parts, v1 = by_groups ? vectors : vectors * (part + 1) / parts;
    const int64_t last = v1 == vectors ? context->end : context->begin + v1 * LANES;
    if (dense->group != GROUP)
        return 2;
    for (int64_t p = context->begin + v0 * LANES; p < last;) {
        const int64_t left = (last - p + LANES - 1) / LANES, tiles = (left + DENSE_TILE - 1) / DENSE_TILE;
        const int64_t tile = (left + tiles - 1) / tiles; /* nearly equal tiles */
        const Positions positions = {p, last - p < tile * LANES ? last - p : tile * LANES};
        switch (tile) {
            DENSE_CASE(1)
#if DENSE_TILE > 1
            DENSE_CASE(2) DENSE_CASE(3) DENSE_CASE(4) DENSE_CASE(5) DENSE_CASE(6)
#endif
        }
        p += tile * LANES;
    }
    return 0;
}
