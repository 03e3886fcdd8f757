/* Integers and truth values as floats. A part of engine_variant.h. */

KERNEL_OF(cast)
{
    const Cast *cast = of;
    const float *from = sg_at(context, cast->in.buffer, 0);
    float *to = sg_at(context, cast->out.buffer, cast->out.offset);
    Walk walk = {.dims = cast->dims};
    int64_t count = 1;
    for (int64_t d = 0; d < walk.dims; d++) {
        walk.dim[d] = (Dim){cast->shape[d], cast->in.stride[d], cast->out.stride[d]};
        count *= cast->shape[d];
    }
    const int64_t first = count * context->part / context->num_parts;
    const int64_t last = count * (context->part + 1) / context->num_parts;
    if (first == last)
        return 0;
    NAME(walk_to)(&walk, first);
    for (int64_t i = first; i < last; i++, NAME(walk_on)(&walk)) {
        const int64_t at = cast->in.offset + walk.in;
        to[walk.out] = cast->bytes == 8 ? (float)((const int64_t *)(const void *)from)[at] :
                                          (float)(((const uint8_t *)(const void *)from)[at] != 0);
    }
    return 0;
}
