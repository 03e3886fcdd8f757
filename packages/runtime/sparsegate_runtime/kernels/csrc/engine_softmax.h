/* Softmax: along its dimension, if elements are neighbours there, or across neighbours in another dimension. */
#define SOFTMAX_PARTS 4

/* The offset of the element `index` of some dimensions */
INLINE int64_t NAME(offset_of)(int64_t index, int64_t dims, const int64_t *shape, const int64_t *stride)
{
    int64_t offset = 0;
    for (int64_t d = dims - 1; d > 0; index /= shape[d], d--)
        offset += index % shape[d] * stride[d];
    return dims ? offset + index * stride[0] : 0;
}

INLINE Part NAME(gather)(const float *from, int64_t stride, int64_t count)
{
    float part[WIDTH] = {0};
    if (stride == 1)
        return NAME(load)(from);
    for (int64_t i = 0; i < count; i++)
        part[i] = from[i * stride];
    return NAME(load)(part);
}

INLINE void NAME(scatter)(float *to, Part value, int64_t stride, int64_t count)
{
    float part[WIDTH];
    if (stride == 1) {
        NAME(save_first)(to, value, count);
        return;
    }
    NAME(save)(part, value);
    for (int64_t i = 0; i < count; i++)
        to[i * stride] = part[i];
}

/* `count` elements, `step` and `out_step` apart */
INLINE void NAME(softmax_line)(const float *in, int64_t step, float *out, int64_t out_step, int64_t count, int64_t log)
{
    const Part lowest = NAME(every)(-INFINITY), zero = NAME(every)(0);
    const int64_t full = count - count % WIDTH, tail = count - full;
    Part most = lowest, sum = zero;
    float largest = -INFINITY, lanes[WIDTH];
    for (int64_t i = 0; i < full; i += WIDTH)
        most = LARGER_PART(NAME(gather)(in + i * step, step, WIDTH), most);
    if (tail)
        most = LARGER_PART(NAME(keep_first)(NAME(gather)(in + full * step, step, tail), tail, lowest), most);
    NAME(save)(lanes, most);
    for (int i = 0; i < WIDTH; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    for (int64_t i = 0; i < full; i += WIDTH) {
        const Part e = NAME(exp_part)(NAME(gather)(in + i * step, step, WIDTH) - largest);
        sum += e;
        if (!log)
            NAME(scatter)(out + i * out_step, e, out_step, WIDTH);
    }
    if (tail) {
        const Part e = NAME(exp_part)(NAME(gather)(in + full * step, step, tail) - largest);
        sum += NAME(keep_first)(e, tail, zero);
        if (!log)
            NAME(scatter)(out + full * out_step, e, out_step, tail);
    }
    const float total = NAME(sum_of)(sum), factor = 1 / total, less = logf(total);
    for (int64_t i = 0; i < count; i += WIDTH) {
        const int64_t here = count - i < WIDTH ? count - i : WIDTH;
        const Part y = log ? (NAME(gather)(in + i * step, step, here) - largest) - less
                           : NAME(gather)(out + i * out_step, out_step, here) * factor;
        NAME(scatter)(out + i * out_step, y, out_step, here);
    }
}

/* `width` parts of neighbours, of which the last part has `tail`; the softmax is over `count` elements each. */
INLINE void NAME(softmax_block)(const int width, const float *in, int64_t step, float *out, int64_t out_step, int64_t count,
                                int64_t log, int64_t tail)
{
    Part most[SOFTMAX_PARTS], sum[SOFTMAX_PARTS];
    UNROLL for (int t = 0; t < width; t++)
    {
        most[t] = NAME(every)(-INFINITY);
        sum[t] = NAME(every)(0);
    }
    for (int64_t j = 0; j < count; j++)
        UNROLL for (int t = 0; t < width; t++) most[t] = LARGER_PART(NAME(load)(in + j * step + t * WIDTH), most[t]);
    for (int64_t j = 0; j < count; j++)
        UNROLL for (int t = 0; t < width; t++)
        {
            const Part e = NAME(exp_part)(NAME(load)(in + j * step + t * WIDTH) - most[t]);
            sum[t] += e;
            if (!log)
                NAME(save_first)(out + j * out_step + t * WIDTH, e, t == width - 1 ? tail : WIDTH);
        }
    UNROLL for (int t = 0; t < width; t++) sum[t] = log ? NAME(log_part)(sum[t]) : 1.0f / sum[t];
    for (int64_t j = 0; j < count; j++)
        UNROLL for (int t = 0; t < width; t++)
        {
            float *to = out + j * out_step + t * WIDTH;
            const Part y = log ? (NAME(load)(in + j * step + t * WIDTH) - most[t]) - sum[t] : NAME(load)(to) * sum[t];
            NAME(save_first)(to, y, t == width - 1 ? tail : WIDTH);
        }
}

/* Across dimension `d`, whose elements are neighbours */
TARGET static void NAME(softmax_across)(const Softmax *of, const Context *context, int64_t d)
{
    const int64_t last = of->dims - 1, positions = of->shape[d], block = SOFTMAX_PARTS * WIDTH;
    const int64_t blocks = (positions + block - 1) / block;
    int64_t shape[MOST_DIMS], units = blocks;
    memcpy(shape, of->shape, sizeof(shape));
    shape[d] = 1;
    for (int64_t k = 0; k < last; k++)
        units *= shape[k];
    const int64_t until = units * (context->part + 1) / context->num_parts;
    for (int64_t unit = units * context->part / context->num_parts; unit < until; unit++) {
        const int64_t index = unit / blocks, first = unit % blocks * block;
        const float *in = sg_at(context, of->in.buffer, of->in.offset) + NAME(offset_of)(index, last, shape, of->in.stride) + first;
        float *out = sg_at(context, of->out.buffer, of->out.offset) + NAME(offset_of)(index, last, shape, of->out.stride) + first;
        const int64_t left = positions - first < block ? positions - first : block;
        const int64_t step = of->in.stride[last], out_step = of->out.stride[last], count = of->shape[last];
        if (left > block - WIDTH)
            NAME(softmax_block)(SOFTMAX_PARTS, in, step, out, out_step, count, of->log, left - (block - WIDTH));
        else
            for (int64_t p = 0; p < left; p += WIDTH)
                NAME(softmax_block)(1, in + p, step, out + p, out_step, count, of->log, left - p < WIDTH ? left - p : WIDTH);
    }
}

KERNEL_OF(softmax)
{
    const Softmax *my = of;
    const int64_t last = my->dims - 1, step = my->in.stride[last], out_step = my->out.stride[last];
    int64_t units = 1;
    for (int64_t d = 0; d < last; d++)
        units *= my->shape[d];
    if (step != 1 || out_step != 1)
        for (int64_t d = 0; d < last; d++)
            if (my->in.stride[d] == 1 && my->out.stride[d] == 1 && my->shape[d] > 1) {
                NAME(softmax_across)(my, context, d);
                return 0;
            }
    const int64_t until = units * (context->part + 1) / context->num_parts;
    for (int64_t unit = units * context->part / context->num_parts; unit < until; unit++) {
        const float *in = sg_at(context, my->in.buffer, my->in.offset) + NAME(offset_of)(unit, last, my->shape, my->in.stride);
        float *out = sg_at(context, my->out.buffer, my->out.offset) + NAME(offset_of)(unit, last, my->shape, my->out.stride);
        if (step == 1 && out_step == 1)
            NAME(softmax_line)(in, 1, out, 1, my->shape[last], my->log);
        else
            NAME(softmax_line)(in, step, out, out_step, my->shape[last], my->log);
    }
    return 0;
}
