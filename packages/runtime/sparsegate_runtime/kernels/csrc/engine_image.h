/* Pools and interpolation. A part of engine_variant.h. */

/* ---- pools ---- */

#define POOLED 512 /* positions of a channel that a thread takes at a time */

/* The larger one, NaN if one is. */
INLINE Vector NAME(pool_larger)(Vector one, Vector two)
{
    const Bits first = (one >= two) | (one != one);
    return (Vector)((first & (Bits)one) | (~first & (Bits)two));
}

/* The first floats of an array, zeros after them: nothing beyond them is read. */
INLINE Vector NAME(some)(const void *from, int64_t count)
{
    Vector some = {0};
    if (count >= LANES)
        return *(const Vector *)from;
    memcpy(&some, from, (size_t)count * sizeof(float));
    return some;
}

/* Sixteen positions; the first `count` are written. */
INLINE void NAME(pool_vector)(const Pool *pool, const float *in, int64_t p, int64_t count, float *out)
{
    const float *x = in + sg_source(&pool->apart, p);
    Vector sum = *NAME(at)(x, pool->offset[0]);
    for (int64_t k = 1; k < pool->taps; k++) {
        const Vector next = *NAME(at)(x, pool->offset[k]);
        sum = pool->largest ? NAME(pool_larger)(sum, next) : sum + next;
    }
    if (!pool->largest)
        sum *= pool->scale ? NAME(some)(pool->scale + p, count) : NAME(all)(1 / (float)pool->taps);
    if (pool->inside)
        sum = (Vector)((Bits)sum & (Bits)NAME(some)(pool->inside + p, count));
    if (count >= LANES)
        *(Vector *)(void *)(out + p) = sum;
    else
        STORE_FIRST(out + p, sum, count);
}

KERNEL_OF(pool)
{
    const Pool *pool = of;
    const float *in = sg_at(context, pool->in.buffer, pool->in.offset);
    float *out = sg_at(context, pool->out.buffer, pool->out.offset);
    const int64_t pieces = (context->end - context->begin + POOLED - 1) / POOLED, jobs = pool->channels * pieces;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t c = job / pieces, begin = context->begin + job % pieces * POOLED;
        const int64_t end = begin + POOLED < context->end ? begin + POOLED : context->end;
        for (int64_t p = begin; p < end; p += LANES)
            NAME(pool_vector)(pool, in + c * pool->in.stride, p, end - p, out + c * pool->out.stride);
    }
    return 0;
}

/* ---- interpolation ---- */

#define LONGEST_LINE 2048 /* pixels of a line of the source; longer ones are read pixel by pixel */

/* to[x] = from[pixel[x]], or between two pixels by their weights. */
INLINE void NAME(pixels)(const Upsample *upsample, const float *from, int sharp, float *to, int64_t step)
{
    const int32_t *p0 = upsample->pixel0, *p1 = upsample->pixel1;
    const float *weight = upsample->pixel_weight;
    if (sharp && step == 1)
        for (int64_t x = 0; x < upsample->out_width; x++)
            to[x] = from[p0[x]];
    else if (step == 1)
        for (int64_t x = 0; x < upsample->out_width; x++)
            to[x] = (1 - weight[x]) * from[p0[x]] + weight[x] * from[p1[x]];
    else
        for (int64_t x = 0; x < upsample->out_width; x++)
            to[x * step] = sharp ? from[p0[x]] : (1 - weight[x]) * from[p0[x]] + weight[x] * from[p1[x]];
}

/* Two lines of the source by the weight of the second; a weight of zero reads only the first. */
INLINE void NAME(blend)(const float *one, const float *two, float weight, int64_t step, int64_t width, float *to)
{
    if (weight == 0)
        NAME(strided_row)(one, step, to, 1, width);
    else if (step == 1)
        for (int64_t x = 0; x < width; x++)
            to[x] = (1 - weight) * one[x] + weight * two[x];
    else
        for (int64_t x = 0; x < width; x++)
            to[x] = (1 - weight) * one[x * step] + weight * two[x * step];
}

/* One line of out; `width` is that of the source, `sharp` says that no pixel lies between two. */
TARGET static void NAME(upsample_line)(const Upsample *upsample, const float *image, int64_t y, int64_t width, int sharp,
                                       float *to)
{
    const int64_t step = upsample->in.stride[3], out_step = upsample->out.stride[3];
    const float *one = image + upsample->line0[y] * upsample->in.stride[2];
    const float *two = image + upsample->line1[y] * upsample->in.stride[2];
    const float weight = upsample->line_weight[y];
    float line[LONGEST_LINE];
    if (weight == 0 && step == 1) {
        NAME(pixels)(upsample, one, sharp, to, out_step);
    } else if (width <= LONGEST_LINE) {
        NAME(blend)(one, two, weight, step, width, line);
        NAME(pixels)(upsample, line, sharp, to, out_step);
    } else {
        for (int64_t x = 0; x < upsample->out_width; x++) {
            float left, right;
            NAME(blend)(one + upsample->pixel0[x] * step, two + upsample->pixel0[x] * step, weight, 1, 1, &left);
            NAME(blend)(one + upsample->pixel1[x] * step, two + upsample->pixel1[x] * step, weight, 1, 1, &right);
            NAME(blend)(&left, &right, upsample->pixel_weight[x], 1, 1, to + x * out_step);
        }
    }
}

KERNEL_OF(upsample)
{
    const Upsample *upsample = of;
    const float *in = sg_at(context, upsample->in.buffer, upsample->in.offset);
    float *out = sg_at(context, upsample->out.buffer, upsample->out.offset);
    const int64_t lines = upsample->out_height, jobs = upsample->images * upsample->channels * lines;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    int64_t width = 0;
    int sharp = 1;
    for (int64_t x = 0; x < upsample->out_width; x++) {
        width = upsample->pixel0[x] >= width ? upsample->pixel0[x] + 1 : width;
        width = upsample->pixel1[x] >= width ? upsample->pixel1[x] + 1 : width;
        sharp &= upsample->pixel_weight[x] == 0;
    }
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t y = job % lines, c = job / lines % upsample->channels, n = job / lines / upsample->channels;
        const float *image = in + n * upsample->in.stride[0] + c * upsample->in.stride[1];
        float *to = out + n * upsample->out.stride[0] + c * upsample->out.stride[1] + y * upsample->out.stride[2];
        NAME(upsample_line)(upsample, image, y, width, sharp, to);
    }
    return 0;
}
