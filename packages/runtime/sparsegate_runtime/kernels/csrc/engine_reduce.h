/* Sums, means, largest and smallest elements: along a dimension of neighbours, or across one that is kept. */
#define REDUCE_PARTS 4
#define REDUCE_RUN 512 /* parts that are added up before their sum is added to the total: rounding stays small */

/* What was found so far. The smallest is the largest of the negated elements. */
typedef struct {
    Part run, total;
    Choice unknown; /* a NaN was among them */
} NAME(Found);

INLINE NAME(Found) NAME(nothing)(const int sums)
{
    const Part none = NAME(every)(sums ? 0 : -INFINITY);
    return (NAME(Found)){none, NAME(every)(0), UNKNOWN(none)};
}

INLINE void NAME(find)(NAME(Found) *found, Part x, const int sums, PartBits flip)
{
    if (sums) {
        found->run += x;
    } else {
        found->unknown |= UNKNOWN(x);
        found->run = LARGER_PART((Part)((PartBits)x ^ flip), found->run);
    }
}

INLINE void NAME(end_run)(NAME(Found) *found)
{
    found->total += found->run;
    found->run = NAME(every)(0);
}

INLINE Part NAME(result)(const NAME(Found) *found, const int sums, PartBits flip, float share)
{
    if (sums)
        return (found->total + found->run) * share;
    return PICK(found->unknown, NAME(every)(NAN), (Part)((PartBits)found->run ^ flip));
}

/* A reduction: the dimensions other than the one that is gone along (or across), kept ones first */
typedef struct {
    int64_t kept, reduced; /* dimensions without `line` */
    int64_t kept_shape[MOST_DIMS], kept_in[MOST_DIMS], kept_out[MOST_DIMS];
    int64_t shape[MOST_DIMS], stride[MOST_DIMS];
    int64_t units, rows; /* elements of kept and of reduced */
    int64_t count, step, out_step;
    float share;
    PartBits flip;
} NAME(Reduction);

TARGET static NAME(Reduction) NAME(reduction)(const Reduce *of, int64_t line)
{
    NAME(Reduction) my = {.units = 1, .rows = 1, .share = 1, .count = 1};
    if (of->kind == REDUCE_MEAN)
        my.share = of->share;
    for (int64_t d = 0; d < of->dims + of->reduced; d++) {
        const int64_t is_kept = d < of->dims, size = of->shape[d];
        if (d == line) {
            my.count = size;
            my.step = of->in.stride[d];
            my.out_step = is_kept ? of->out.stride[d] : 0;
        } else if (is_kept) {
            my.kept_shape[my.kept] = size;
            my.kept_in[my.kept] = of->in.stride[d];
            my.kept_out[my.kept++] = of->out.stride[d];
            my.units *= size;
        } else {
            my.shape[my.reduced] = size;
            my.stride[my.reduced++] = of->in.stride[d];
            my.rows *= size;
        }
    }
    my.flip = of->kind == REDUCE_MIN ? SIGN_BIT : (PartBits){0};
    return my;
}

/* One element of the result, along lines */
INLINE float NAME(reduce_lines)(const NAME(Reduction) *my, const float *in, const int64_t step, const int sums)
{
    const Part none = NAME(every)(sums ? 0 : -INFINITY);
    NAME(Found) found[REDUCE_PARTS];
    int64_t done = 0;
    UNROLL for (int t = 0; t < REDUCE_PARTS; t++) found[t] = NAME(nothing)(sums);
    for (int64_t row = 0; row < my->rows; row++) {
        const float *from = in + NAME(offset_of)(row, my->reduced, my->shape, my->stride);
        int64_t i = 0;
        for (; i + REDUCE_PARTS * WIDTH <= my->count; i += REDUCE_PARTS * WIDTH) {
            UNROLL for (int t = 0; t < REDUCE_PARTS; t++)
                NAME(find)(found + t, NAME(gather)(from + (i + t * WIDTH) * step, step, WIDTH), sums, my->flip);
            if (sums && ++done % REDUCE_RUN == 0)
                UNROLL for (int t = 0; t < REDUCE_PARTS; t++) NAME(end_run)(found + t);
        }
        for (; i < my->count; i += WIDTH) {
            const int64_t here = my->count - i < WIDTH ? my->count - i : WIDTH;
            const Part x = NAME(gather)(from + i * step, step, here);
            const Part unchanged = (Part)((PartBits)none ^ (sums ? (PartBits){0} : my->flip));
            NAME(find)(found, NAME(keep_first)(x, here, unchanged), sums, my->flip);
        }
        if (sums && ++done % REDUCE_RUN == 0)
            NAME(end_run)(found);
    }
    Part all = NAME(result)(found, sums, my->flip, my->share);
    UNROLL for (int t = 1; t < REDUCE_PARTS; t++)
    {
        const Part more = NAME(result)(found + t, sums, my->flip, my->share);
        if (sums)
            all += more;
        else
            all = (Part)((PartBits)NAME(max_part)((Part)((PartBits)all ^ my->flip), (Part)((PartBits)more ^ my->flip)) ^ my->flip);
    }
    if (sums)
        return NAME(sum_of)(all);
    float lanes[WIDTH];
    NAME(save)(lanes, (Part)((PartBits)all ^ my->flip));
    for (int i = 1; i < WIDTH; i++)
        lanes[0] = lanes[0] >= lanes[i] || isnan(lanes[0]) ? lanes[0] : lanes[i];
    return my->flip[0] ? -lanes[0] : lanes[0];
}

/* `width` parts of neighbours that are kept */
INLINE void NAME(reduce_block)(const int width, const NAME(Reduction) *my, const float *in, float *out, int64_t tail,
                               const int sums)
{
    NAME(Found) found[REDUCE_PARTS];
    const int64_t inner = my->reduced - 1, count = my->reduced ? my->shape[inner] : 1;
    const int64_t step = my->reduced ? my->stride[inner] : 0, rows = count ? my->rows / count : 0;
    int64_t done = 0;
    UNROLL for (int t = 0; t < width; t++) found[t] = NAME(nothing)(sums);
    for (int64_t row = 0; row < rows; row++) {
        const float *from = in + NAME(offset_of)(row, inner > 0 ? inner : 0, my->shape, my->stride);
        for (int64_t j = 0; j < count; j++) {
            UNROLL for (int t = 0; t < width; t++)
                NAME(find)(found + t, NAME(load)(from + j * step + t * WIDTH), sums, my->flip);
            if (sums && ++done % REDUCE_RUN == 0)
                UNROLL for (int t = 0; t < width; t++) NAME(end_run)(found + t);
        }
    }
    UNROLL for (int t = 0; t < width; t++)
        NAME(scatter)(out + t * WIDTH * my->out_step, NAME(result)(found + t, sums, my->flip, my->share), my->out_step,
                      t == width - 1 ? tail : WIDTH);
}

INLINE void NAME(reduce_across)(const NAME(Reduction) *my, const float *in, float *out, const Context *context, const int sums)
{
    const int64_t block = REDUCE_PARTS * WIDTH, blocks = (my->count + block - 1) / block, units = my->units * blocks;
    const int64_t until = units * (context->part + 1) / context->num_parts;
    for (int64_t unit = units * context->part / context->num_parts; unit < until; unit++) {
        const int64_t index = unit / blocks, first = unit % blocks * block;
        const float *from = in + NAME(offset_of)(index, my->kept, my->kept_shape, my->kept_in) + first;
        float *to = out + NAME(offset_of)(index, my->kept, my->kept_shape, my->kept_out) + first * my->out_step;
        const int64_t left = my->count - first < block ? my->count - first : block;
        if (left > block - WIDTH)
            NAME(reduce_block)(REDUCE_PARTS, my, from, to, left - (block - WIDTH), sums);
        else
            for (int64_t p = 0; p < left; p += WIDTH)
                NAME(reduce_block)(1, my, from + p, to + p * my->out_step, left - p < WIDTH ? left - p : WIDTH, sums);
    }
}

KERNEL_OF(reduce)
{
    const Reduce *my = of;
    const int64_t all = my->dims + my->reduced;
    const int sums = my->kind == REDUCE_SUM || my->kind == REDUCE_MEAN;
    const float *in = sg_at(context, my->in.buffer, my->in.offset);
    float *out = sg_at(context, my->out.buffer, my->out.offset);
    int64_t line = all - 1; /* of neighbours, or else the last reduced dimension: there is one */
    for (int64_t d = 0; d < all; d++)
        if (my->in.stride[d] == 1 && my->shape[d] > 1)
            line = d;
    const NAME(Reduction) how = NAME(reduction)(my, line);
    if (line < my->dims) {
        if (sums)
            NAME(reduce_across)(&how, in, out, context, 1);
        else
            NAME(reduce_across)(&how, in, out, context, 0);
        return 0;
    }
    const int64_t until = how.units * (context->part + 1) / context->num_parts;
    for (int64_t unit = how.units * context->part / context->num_parts; unit < until; unit++) {
        const float *from = in + NAME(offset_of)(unit, how.kept, how.kept_shape, how.kept_in);
        float *to = out + NAME(offset_of)(unit, how.kept, how.kept_shape, how.kept_out);
        if (how.step == 1)
            *to = sums ? NAME(reduce_lines)(&how, from, 1, 1) : NAME(reduce_lines)(&how, from, 1, 0);
        else
            *to = sums ? NAME(reduce_lines)(&how, from, how.step, 1) : NAME(reduce_lines)(&how, from, how.step, 0);
    }
    return 0;
}
