/* Norms: over the channels of every position, and over groups of channels of an image. */
#define NORM_PARTS 8
#define NORM_CACHE (1 << 17) /* floats of a block: it is read three times, from the second cache */

/* The `count` first floats of a part; the others are `rest` */
static const int32_t NAME(first)[2 * WIDTH] = {
    -1, -1, -1, -1,
#if WIDTH > 4
    -1, -1, -1, -1,
#endif
#if WIDTH > 8
    -1, -1, -1, -1, -1, -1, -1, -1,
#endif
};

INLINE Part NAME(keep_first)(Part x, int64_t count, Part rest)
{
    const PartBits kept = *(const PartBits *)(const void *)(NAME(first) + WIDTH - count);
    return (Part)(((PartBits)x & kept) | ((PartBits)rest & ~kept));
}

INLINE void NAME(save_first)(float *to, Part value, int64_t count)
{
    if (count == WIDTH)
        NAME(save)(to, value);
    else
        STORE_FIRST(to, value, count);
}

/* A block of `width` parts of positions; the last part has `tail` of them. */
INLINE void NAME(norm_block)(const int width, const ChannelNorm *of, const float *in, float *out, const int32_t *inside,
                             int64_t tail)
{
    Part mean[NORM_PARTS], scale[NORM_PARTS];
    const float share = 1.0f / (float)of->channels;
    UNROLL for (int t = 0; t < width; t++) mean[t] = scale[t] = NAME(every)(0);
    for (int64_t c = 0; c < of->channels && !of->rms; c++)
        UNROLL for (int t = 0; t < width; t++) mean[t] += NAME(load)(in + c * of->in.stride + t * WIDTH);
    UNROLL for (int t = 0; t < width; t++) mean[t] *= share;
    for (int64_t c = 0; c < of->channels; c++)
        UNROLL for (int t = 0; t < width; t++)
        {
            const Part away = NAME(load)(in + c * of->in.stride + t * WIDTH) - mean[t];
            scale[t] += away * away;
        }
    UNROLL for (int t = 0; t < width; t++)
    {
        scale[t] = scale[t] * share + of->eps;
        scale[t] = 1.0f / ROOT(scale[t]);
    }
    for (int64_t c = 0; c < of->channels; c++) {
        const Part weight = NAME(every)(of->weight ? of->weight[c] : 1), bias = NAME(every)(of->bias ? of->bias[c] : 0);
        UNROLL for (int t = 0; t < width; t++)
        {
            Part y = (NAME(load)(in + c * of->in.stride + t * WIDTH) - mean[t]) * scale[t] * weight + bias;
            if (inside)
                y = (Part)((PartBits)y & *(const PartBits *)(const void *)(inside + t * WIDTH));
            float *to = out + c * of->out.stride + t * WIDTH;
            if (t == width - 1)
                NAME(save_first)(to, y, tail);
            else
                NAME(save)(to, y);
        }
    }
}

/* The sum of a line: of x - mean, or of its square */
INLINE Part NAME(line_sum)(const float *from, int64_t count, const int square, float mean)
{
    Part sum[4];
    int64_t i = 0;
    UNROLL for (int t = 0; t < 4; t++) sum[t] = NAME(every)(0);
    for (; i + 4 * WIDTH <= count; i += 4 * WIDTH)
        UNROLL for (int t = 0; t < 4; t++)
        {
            const Part x = NAME(load)(from + i + t * WIDTH) - mean;
            sum[t] += square ? x * x : x;
        }
    for (; i < count; i += WIDTH) {
        const Part x = NAME(load)(from + i) - mean;
        const Part y = square ? x * x : x;
        sum[0] += count - i < WIDTH ? NAME(keep_first)(y, count - i, NAME(every)(0)) : y;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* x * weight + bias for channels from c on; weights may end with the last of `here` channels */
INLINE Part NAME(scaled_channels)(const ChannelNorm *of, Part x, int64_t c, int64_t here)
{
    float factor[WIDTH] = {0}, more[WIDTH] = {0};
    if (here == WIDTH) {
        x = of->weight ? x * NAME(load)(of->weight + c) : x;
        return of->bias ? x + NAME(load)(of->bias + c) : x;
    }
    for (int64_t i = 0; i < here; i++) {
        factor[i] = of->weight ? of->weight[c + i] : 1;
        more[i] = of->bias ? of->bias[c + i] : 0;
    }
    return x * NAME(load)(factor) + NAME(load)(more);
}

/* One position whose channels are neighbours */
TARGET static void NAME(norm_vector)(const ChannelNorm *of, const float *in, float *out)
{
    const int64_t count = of->channels;
    const float mean = of->rms ? 0 : NAME(sum_of)(NAME(line_sum)(in, count, 0, 0)) / (float)count;
    const float variance = NAME(sum_of)(NAME(line_sum)(in, count, 1, mean)) / (float)count;
    const float scale = 1.0f / sqrtf(variance + of->eps);
    for (int64_t c = 0; c < count; c += WIDTH) {
        const int64_t here = count - c < WIDTH ? count - c : WIDTH;
        const Part y = NAME(scaled_channels)(of, (NAME(load)(in + c) - mean) * scale, c, here);
        if (here == WIDTH) {
            NAME(save)(out + c, y);
            continue;
        }
        NAME(save_first)(out + c, y, here);
    }
}

KERNEL_OF(channel_norm)
{
    const ChannelNorm *my = of;
    const int64_t positions = context->end - context->begin, parts = (positions + WIDTH - 1) / WIDTH;
    int64_t widest = NORM_PARTS;
    while (widest > 1 && widest * WIDTH * my->channels > NORM_CACHE)
        widest /= 2;
    const int64_t until = parts * (context->part + 1) / context->num_parts;
    const float *in = sg_at(context, my->in.buffer, my->in.offset + context->begin);
    float *out = sg_at(context, my->out.buffer, my->out.offset + context->begin);
    const int32_t *inside = my->inside ? my->inside + context->begin : 0;
    if (positions == 1 && my->in.stride == 1 && my->out.stride == 1 && (!inside || *inside)) {
        if (context->part == 0)
            NAME(norm_vector)(my, in, out);
        return 0;
    }
    for (int64_t p = parts * context->part / context->num_parts; p < until;) {
        int64_t width = widest;
        while (width > until - p)
            width /= 2;
        const int64_t at = p * WIDTH, left = positions - at - (width - 1) * WIDTH, tail = left < WIDTH ? left : WIDTH;
        const int32_t *mask = inside ? inside + at : 0;
        if (width == 8)
            NAME(norm_block)(8, my, in + at, out + at, mask, tail);
        else if (width == 4)
            NAME(norm_block)(4, my, in + at, out + at, mask, tail);
        else if (width == 2)
            NAME(norm_block)(2, my, in + at, out + at, mask, tail);
        else
            NAME(norm_block)(1, my, in + at, out + at, mask, tail);
        p += width;
    }
    return 0;
}

/* The sum over some channels of an image, of x - mean or its square */
INLINE double NAME(channels_sum)(const float *in, const GroupNorm *of, int64_t channels, int64_t lines, int64_t width,
                                 const int square, float mean)
{
    double total = 0;
    for (int64_t c = 0; c < channels; c++) {
        Part sum = NAME(every)(0);
        for (int64_t y = 0; y < lines; y++)
            sum += NAME(line_sum)(in + c * of->in.stride[1] + y * of->in.stride[2], width, square, mean);
        total += (double)NAME(sum_of)(sum);
    }
    return total;
}

KERNEL_OF(group_norm)
{
    const GroupNorm *my = of;
    const int64_t channels = my->channels / my->groups, units = my->images * my->groups;
    const int joined = my->in.stride[2] == my->width && my->out.stride[2] == my->width;
    const int64_t lines = joined ? 1 : my->lines, width = joined ? my->lines * my->width : my->width;
    const double share = 1.0 / (double)(channels * lines * width);
    const int64_t until = units * (context->part + 1) / context->num_parts;
    for (int64_t unit = units * context->part / context->num_parts; unit < until; unit++) {
        const int64_t image = unit / my->groups, first = unit % my->groups * channels;
        const float *in = sg_at(context, my->in.buffer, my->in.offset) + image * my->in.stride[0] + first * my->in.stride[1];
        float *out = sg_at(context, my->out.buffer, my->out.offset) + image * my->out.stride[0] + first * my->out.stride[1];
        const float mean = (float)(NAME(channels_sum)(in, my, channels, lines, width, 0, 0) * share);
        const double variance = NAME(channels_sum)(in, my, channels, lines, width, 1, mean) * share;
        const float scale = (float)(1 / sqrt(variance + (double)my->eps));
        for (int64_t c = 0; c < channels; c++) {
            const float factor = scale * (my->weight ? my->weight[first + c] : 1);
            const float more = my->bias ? my->bias[first + c] : 0;
            for (int64_t y = 0; y < lines; y++) {
                const float *from = in + c * my->in.stride[1] + y * my->in.stride[2];
                float *to = out + c * my->out.stride[1] + y * my->out.stride[2];
                for (int64_t i = 0; i < width; i += WIDTH)
                    NAME(save_first)(to + i, (NAME(load)(from + i) - mean) * factor + more, width - i < WIDTH ? width - i : WIDTH);
            }
        }
    }
    return 0;
}
