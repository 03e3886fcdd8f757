/* The micro-kernel and the kernels that use it, for one kind of processor.
 *
 * Included once for each kind, with NAME(x), TARGET (a function attribute or nothing), MAX_TILE (vectors
 * that fit into the registers), LARGER(one, two) and STORE_FIRST(to, vector, count) defined. All kernels
 * have one form: acc[t] += value[k] * x[offset[k] + 16 t], for t in a tile of vectors that stay in
 * registers along a row's weights.
 */
#include <math.h>
#include <string.h>

#include "chain.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE TARGET static inline __attribute__((always_inline))
#define BARRIER(task)                                                                                        \
    if ((task)->num_parts > 1) {                                                                             \
        _Pragma("omp barrier")                                                                               \
    }

/* A step of the transposition of sixteen vectors of sixteen: swaps lanes of pairs of vectors DISTANCE
 * apart. */
#define SWAP(a, b, DISTANCE, LOW, HIGH)                                                                      \
    UNROLL for (int i = 0; i < LANES; i++) if (!(i & DISTANCE))                                              \
    {                                                                                                        \
        b[i] = __builtin_shufflevector(a[i], a[i + DISTANCE], LOW);                                          \
        b[i + DISTANCE] = __builtin_shufflevector(a[i], a[i + DISTANCE], HIGH);                              \
    }
#define TRANSPOSE(a, b)                                                                                      \
    SWAP(a, b, 1, LOW_1, HIGH_1) SWAP(b, a, 2, LOW_2, HIGH_2) SWAP(a, b, 4, LOW_4, HIGH_4) SWAP(b, a, 8, LOW_8, HIGH_8)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Bits __attribute__((vector_size(4 * LANES), aligned(4)));

/* What happens to a finished sum. */
typedef struct {
    float least;           /* the lower bound: zero for a ReLU */
    const int32_t *inside; /* a mask that sets lanes to zero, or NULL */
} End;

INLINE Vector NAME(all)(float value)
{
    return value - (Vector){0};
}

INLINE const Vector *NAME(at)(const float *base, int64_t bytes)
{
    return (const Vector *)(const void *)((const char *)base + bytes);
}

/* Rows r0 .. r1 of one block of columns, on `tile` vectors of x: sums go to out + r * out_step, start at
 * the bias in the first block, and are finished as `end` says. A small tile uses several accumulators per
 * vector, so that a weight need not wait for the one before. */
INLINE void NAME(tile)(const int tile, const Rows *rows, const int64_t num_rows, int64_t block, int64_t r0, int64_t r1,
                       const float *x, const float *bias, const End *end, float *out, int64_t out_step)
{
    const int chains = tile >= 4 ? 1 : tile >= 2 ? 2 : 4;
    const int32_t *start = rows->start + block * (num_rows + 1);
    const int32_t *offset = rows->offset;
    const float *value = rows->value;
    for (int64_t r = r0; r < r1; r++) {
        Vector *to = (Vector *)(void *)(out + (r - r0) * out_step);
        Vector sum[MAX_TILE < 6 ? 6 : MAX_TILE];
        UNROLL for (int t = 0; t < tile; t++) sum[t] = block ? to[t] : NAME(all)(bias[r]);
        UNROLL for (int t = tile; t < tile * chains; t++) sum[t] = NAME(all)(0);
        int32_t k = start[r], after = start[r + 1];
        for (; k + chains <= after; k += chains) {
            UNROLL for (int c = 0; c < chains; c++)
            {
                const Vector *from = NAME(at)(x, offset[k + c]);
                const Vector weight = NAME(all)(value[k + c]);
                UNROLL for (int t = 0; t < tile; t++) sum[c * tile + t] += weight * from[t];
            }
        }
        for (; k < after; k++) {
            const Vector *from = NAME(at)(x, offset[k]);
            const Vector weight = NAME(all)(value[k]);
            UNROLL for (int t = 0; t < tile; t++) sum[t] += weight * from[t];
        }
        UNROLL for (int c = 1; c < chains; c++)
        {
            UNROLL for (int t = 0; t < tile; t++) sum[t] += sum[c * tile + t];
        }
        if (end && end->inside) {
            const Bits *inside = (const Bits *)(const void *)end->inside;
            UNROLL for (int t = 0; t < tile; t++) to[t] = (Vector)((Bits)LARGER(NAME(all)(end->least), sum[t]) & inside[t]);
        } else if (end) {
            /* keeps a NaN */
            UNROLL for (int t = 0; t < tile; t++) to[t] = LARGER(NAME(all)(end->least), sum[t]);
        } else {
            UNROLL for (int t = 0; t < tile; t++) to[t] = sum[t];
        }
    }
}

#define CASE(T)                                                                                                    \
    case T:                                                                                                        \
        NAME(tile)(T <= MAX_TILE ? T : 1, rows, num_rows, b, r0, r1, x, bias, b == last ? end : 0, out, out_step); \
        break;

/* All blocks of columns in order, so that all rows use a block's inputs while they are in the cache. */
TARGET static void NAME(rows)(int64_t tile, const Rows *rows, int64_t num_rows, int64_t r0, int64_t r1, const float *x,
                              const float *bias, const End *end, float *out, int64_t out_step)
{
    for (int64_t b = 0, last = rows->num_blocks - 1; b <= last; b++) {
        switch (tile) {
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13)
            CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24) CASE(25)
            CASE(26) CASE(27) CASE(28)
        }
    }
}

/* The width of the next tile: `vectors` are split into nearly equal tiles. */
INLINE int64_t NAME(tile_for)(int64_t vectors)
{
    int64_t num_tiles = (vectors + MAX_TILE - 1) / MAX_TILE;
    return (vectors + num_tiles - 1) / num_tiles;
}

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

/* This thread's rows: they have about the same number of weights for every thread. */
INLINE int64_t NAME(split)(const Layer *layer, int64_t part, int64_t num_parts)
{
    int64_t wanted = layer->work[layer->rows] * part / num_parts, low = 0, high = layer->rows;
    if (part == num_parts)
        return layer->rows;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (layer->work[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

INLINE int64_t NAME(split_slices)(const Slices *slices, int64_t part, int64_t num_parts)
{
    int64_t wanted = slices->start[slices->num_slices] * part / num_parts, s = 0;
    if (part == num_parts)
        return slices->num_slices;
    while (s < slices->num_slices && slices->start[s] < wanted)
        s++;
    return s;
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
    Vector a[LANES], b[LANES];
    UNROLL for (int i = 0; i < LANES; i++) a[i] = *NAME(at)(from[i], 4 * feature);
    TRANSPOSE(a, b)
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
    Vector a[LANES], b[LANES];
    UNROLL for (int f = 0; f < LANES; f++) a[f] = *NAME(at)(from + f * step, 0);
    TRANSPOSE(a, b)
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
    const End end = {0, 0};
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
        int64_t r0 = NAME(split)(layer, task->part, task->num_parts);
        int64_t r1 = NAME(split)(layer, task->part + 1, task->num_parts);
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
            NAME(slices)(layer, s0, s1, in, out);
        } else {
            int64_t r0 = NAME(split)(layer, task->part, task->num_parts);
            int64_t r1 = NAME(split)(layer, task->part + 1, task->num_parts);
            NAME(single_conv)(layer, next, r0, r1, in, task->sums, out);
        }
    }
    BARRIER(task)
}

#include "winograd_variant.h"
#include "recurrent_variant.h"
