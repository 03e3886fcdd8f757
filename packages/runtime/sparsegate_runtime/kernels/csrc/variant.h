/* Kernels of chains, Winograd convolutions and recurrent layers, for one kind of processor.
 *
 * Included once for each kind, with NAME(x), TARGET (a function attribute or nothing), MAX_TILE (vectors
 * that fit into the registers), LARGER(one, two) and STORE_FIRST(to, vector, count) defined. All kernels
 * have one form: acc[t] += value[k] * x[offset[k] + 16 t], for t in a tile of vectors that stay in
 * registers along a row's weights.
 */
#include "tile.h"

/* The index of pixel (y, x) of channel c in the padded input of a layer; without a next layer, pixels are
 * contiguous. */
INLINE int64_t NAME(place)(const Layer *next, int64_t height, int64_t width, int64_t c, int64_t y, int64_t x)
{
    if (!next || next->is_linear)
        return (c * height + y) * width + x;
    int64_t py = y + next->pad_y, px = x + next->pad_x;
    if (next->stride_y == 1 && next->stride_x == 1) /* divisions would take longer than a small layer */
        return (c * next->height + py) * next->width + px;
    int64_t phase = (c * next->stride_y + py % next->stride_y) * next->stride_x + px % next->stride_x;
    return (phase * next->height + py / next->stride_y) * next->width + px / next->stride_x;
}

/* The lower bound of a layer's outputs. */
INLINE float NAME(least_of)(const Layer *layer)
{
    return layer->relu ? 0 : -INFINITY;
}

/* Clears the padding of a layer's input, or all of the input if a stride has phases, whose ends differ.
 * Clears the padding between lines only if nothing else writes it. */
TARGET static void NAME(clear)(const Layer *layer, float *buffer, int64_t lanes, int between)
{
    if (!layer || layer->is_linear || !(layer->pad_y || layer->pad_x || layer->stride_y > 1 || layer->stride_x > 1))
        return;
    if (layer->stride_y > 1 || layer->stride_x > 1) {
        memset(buffer, 0, (size_t)(layer->input_size * lanes) * sizeof(float));
        return;
    }
    const int64_t width = layer->conv_width + layer->reach_x - 2 * layer->pad_x; /* of the image itself */
    const int64_t height = layer->conv_height + layer->reach_y - 2 * layer->pad_y;
    const int64_t line = layer->width * lanes, size = layer->height * line;
    const int64_t begin = layer->pad_y * line + layer->pad_x * lanes, gap = line - width * lanes;
    const int64_t end = begin + height * line - gap;
    for (float *image = buffer; image < buffer + layer->input_size * lanes; image += size) {
        memset(image, 0, (size_t)begin * sizeof(float));
        for (float *to = image + begin + width * lanes; between && to < image + end; to += line)
            memset(to, 0, (size_t)gap * sizeof(float));
        memset(image + end, 0, (size_t)(size - end) * sizeof(float));
    }
}

/* ---- sixteen images at a time, or 16 * vectors in chains of linear layers: the images are innermost ---- */

/* Transposes up to sixteen features of sixteen images; `room` features can be read. Repeats the last
 * image. */
TARGET static void NAME(transpose_in)(const float *const from[LANES], int64_t feature, int64_t count, int64_t room,
                                      float *to, int64_t step)
{
    if (room < LANES || count == 1) {
        for (int64_t f = 0; f < count; f++)
            for (int i = 0; i < LANES; i++)
                to[f * step + i] = from[i][feature + f];
        return;
    }
    Vector a[LANES];
    UNROLL for (int i = 0; i < LANES; i++) a[i] = *NAME(at)(from[i], 4 * feature);
    TRANSPOSED(a)
    UNROLL for (int f = 0; f < LANES; f++) if (f < count) * (Vector *)(void *)(to + f * step) = a[f];
}

TARGET static void NAME(panel_in)(const Task *task)
{
    const Chain *chain = task->chain;
    const Layer *layer = chain->layers;
    int64_t height = chain->in_height, width = chain->in_width, lanes = LANES * task->vectors;
    int64_t size = chain->channels * height * width;
    int64_t line = layer->is_linear ? size : width; /* neighbours in both layouts */
    int64_t jump = layer->is_linear ? 1 : layer->stride_x;
    for (int64_t v = 0; v < task->vectors; v++) {
        const float *from[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            int64_t image = v * LANES + i < task->count ? v * LANES + i : task->count - 1;
            from[i] = task->in + (task->first + image) * size;
        }
        int64_t num_lines = size / line;
        int64_t step = line > 64 * LANES ? LANES * 16 : line; /* threads share long lines */
        int64_t pieces = (line + step - 1) / step;
        for (int64_t job = task->part; job < num_lines * pieces; job += task->num_parts) {
            int64_t l = job / pieces, begin = job % pieces * step, end = begin + step < line ? begin + step : line;
            int64_t c = l / height, y = l % height;
            for (int64_t next = begin; next < end; next += jump == 1 ? LANES : 1) {
                /* the last sixteen of a line overlap the previous ones */
                int64_t x = jump == 1 && end - next < LANES && end - begin >= LANES ? end - LANES : next;
                int64_t count = jump == 1 ? (end - x < LANES ? end - x : LANES) : 1;
                int64_t to = layer->is_linear ? l * line + x : NAME(place)(layer, height, width, c, y, x);
                NAME(transpose_in)
                (from, l * line + x, count, size - l * line - x, task->buffer[0] + to * lanes + v * LANES, lanes);
            }
        }
    }
}

/* Transposes sixteen features back to the rows of their images. */
TARGET static void NAME(transpose_out)(const float *from, int64_t step, float *to, int64_t size, int64_t count)
{
    Vector a[LANES];
    UNROLL for (int f = 0; f < LANES; f++) a[f] = *NAME(at)(from + f * step, 0);
    TRANSPOSED(a)
    UNROLL for (int i = 0; i < LANES; i++) if (i < count) * (Vector *)(void *)(to + i * size) = a[i];
}

TARGET static void NAME(panel_out)(const Task *task, const float *from)
{
    const int64_t size = task->chain->out_size, lanes = LANES * task->vectors, whole = size / LANES;
    for (int64_t v = 0; v < task->vectors && v * LANES < task->count; v++) {
        float *to = task->out + (task->first + v * LANES) * size;
        const int64_t count = task->count - v * LANES < LANES ? task->count - v * LANES : LANES;
        for (int64_t f = whole * task->part / task->num_parts; f < whole * (task->part + 1) / task->num_parts; f++)
            NAME(transpose_out)(from + f * LANES * lanes + v * LANES, lanes, to + f * LANES, size, count);
        for (int64_t i = task->part; i < count; i += task->num_parts)
            for (int64_t f = whole * LANES; f < size; f++)
                to[i * size + f] = from[f * lanes + v * LANES + i];
    }
}

#include "panel_conv.h"

TARGET static void NAME(panel_linear)(const Layer *layer, int64_t r0, int64_t r1, int64_t vectors, const float *in,
                                      float *out)
{
    const int64_t lanes = LANES * vectors;
    const End end = {0, 0, 0, 0, 0};
    for (int64_t v = 0; v < vectors; v += MAX_TILE) {
        int64_t here = vectors - v < MAX_TILE ? vectors - v : MAX_TILE;
        NAME(rows)(here, &layer->panel, layer->rows, r0, r1, in + v * LANES, layer->bias, layer->relu ? &end : 0,
                   out + r0 * lanes + v * LANES, lanes);
    }
}

TARGET void NAME(sg_panel)(const Task *task)
{
    const Chain *chain = task->chain;
    const int64_t lanes = LANES * task->vectors;
    if (task->part == 0)
        NAME(clear)(chain->layers, task->buffer[0], lanes, 1);
    BARRIER(task)
    NAME(panel_in)(task);
    for (int64_t l = 0; l < chain->num_layers; l++) {
        const Layer *layer = chain->layers + l, *next = l + 1 < chain->num_layers ? layer + 1 : 0;
        const float *in = task->buffer[l % 2];
        float *out = task->buffer[(l + 1) % 2];
        int64_t r0 = NAME(split)(layer->work, layer->rows, task->part, task->num_parts);
        int64_t r1 = NAME(split)(layer->work, layer->rows, task->part + 1, task->num_parts);
        BARRIER(task) /* no thread reads the buffer any more, so it can be cleared */
        if (task->part == 0)
            NAME(clear)(next, out, lanes, 1);
        BARRIER(task)
        if (layer->is_linear)
            NAME(panel_linear)(layer, r0, r1, task->vectors, in, out);
        else
            NAME(panel_conv)(layer, next, r0, r1, in, task->sums, out);
    }
    BARRIER(task)
    NAME(panel_out)(task, task->buffer[chain->num_layers % 2]);
    BARRIER(task)
}

/* ---- one image: the positions of a convolution are innermost, its lines laid end to end ---- */

#include "single_conv.h"
#include "slices.h"

TARGET void NAME(sg_single)(const Task *task)
{
    const Chain *chain = task->chain;
    if (task->part == 0)
        NAME(clear)(chain->layers, task->buffer[0], 1, 1);
    BARRIER(task)
    const int64_t in_size = chain->channels * chain->in_height * chain->in_width;
    if (!chain->layers->is_linear)
        NAME(single_in)(task);
    for (int64_t l = 0; l < chain->num_layers; l++) {
        const Layer *layer = chain->layers + l, *next = l + 1 < chain->num_layers ? layer + 1 : 0;
        const float *in = l || !layer->is_linear ? task->buffer[l % 2] : task->in + task->first * in_size;
        float *out = l + 1 < chain->num_layers ? task->buffer[(l + 1) % 2] : task->out + task->first * chain->out_size;
        BARRIER(task)
        if (task->part == 0)
            NAME(clear)(next, out, 1, !layer->inside || NAME(is_narrow)(layer));
        BARRIER(task)
        if (layer->is_linear) {
            int64_t s0 = NAME(split_slices)(&layer->slices, task->part, task->num_parts);
            int64_t s1 = NAME(split_slices)(&layer->slices, task->part + 1, task->num_parts);
            NAME(slices)(&layer->slices, layer->bias, layer->relu, s0, s1, in, out, 1);
        } else {
            int64_t r0 = NAME(split)(layer->work, layer->rows, task->part, task->num_parts);
            int64_t r1 = NAME(split)(layer->work, layer->rows, task->part + 1, task->num_parts);
            NAME(single_conv)(layer, next, r0, r1, in, task->sums, out);
        }
    }
    BARRIER(task)
}

#include "winograd_variant.h"
#include "recurrent_variant.h"
