/* Recurrent layers: every thread sends its images through all steps, one image at a time or sixteen together. */
#include "recurrent.h"

KERNEL_OF(recurrent)
{
    const RecurrentSteps *my = of;
    const int64_t lanes = my->single ? 1 : LANES, panels = (my->images + lanes - 1) / lanes;
    const float *in = sg_at(context, my->in.buffer, my->in.offset);
    float *out = sg_at(context, my->out.buffer, my->out.offset);
    float *state = context->scratch, *memory = state + lanes * my->hidden, *rest = memory + lanes * my->hidden;
    Recurrent net = {.cell = my->cell, .hidden = my->hidden};
    net.matrix.rows = my->num_rows;
    net.matrix.bias = my->bias;
    net.matrix.panel = my->rows;
    net.matrix.slices = my->slices;
    for (int64_t panel = context->part; panel < panels; panel += context->num_parts) {
        const int64_t first = panel * lanes, left = my->images - first, count = left < lanes ? left : lanes;
        const Sequence call = {
            .net = &net, .in = in + first * my->in.stride[0], .out = out + first * my->out.stride[0], .state = state,
            .memory = memory, .steps = my->steps, .images = count, .in_step = my->in.stride[1],
            .in_image = my->in.stride[0], .out_step = my->out.stride[1], .out_image = my->out.stride[0],
            .reverse = my->reverse,
        };
        memset(state, 0, (size_t)(2 * lanes * my->hidden) * sizeof(float));
        if (my->single)
            NAME(sg_steps_single)(&call, 0, count, rest);
        else
            NAME(sg_steps)(&call, 0, count, rest);
    }
    return 0;
}
