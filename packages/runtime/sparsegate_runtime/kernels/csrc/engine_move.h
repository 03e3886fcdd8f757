/* Movement: copies, fills, the phases of strided convolutions, embeddings. A part of engine_variant.h. */
#include <stdlib.h>

/* ---- copies ---- */

/* A dimension of a copy: its size, and the distances of neighbours in floats. */
typedef struct {
    int64_t size, in, out;
} Dim;

/* Walks through all indices of some dimensions, the last one fastest. */
typedef struct {
    int64_t dims, index[MOST_DIMS], in, out;
    Dim dim[MOST_DIMS];
} Walk;

#define ROW_PIECE 4096 /* floats of a row that one thread copies at a time */
#define BAND 64    /* floats of a row of a transposed matrix that one thread writes at a time */

/* Moves a walk to its `number`-th index. */
INLINE void NAME(walk_to)(Walk *walk, int64_t number)
{
    walk->in = walk->out = 0;
    for (int64_t d = walk->dims - 1; d >= 0; d--) {
        const Dim *dim = walk->dim + d;
        walk->index[d] = number % dim->size;
        walk->in += walk->index[d] * dim->in;
        walk->out += walk->index[d] * dim->out;
        number /= dim->size;
    }
}

INLINE void NAME(walk_on)(Walk *walk)
{
    for (int64_t d = walk->dims - 1; d >= 0; d--) {
        const Dim *dim = walk->dim + d;
        walk->in += dim->in;
        walk->out += dim->out;
        if (++walk->index[d] < dim->size)
            return;
        walk->index[d] = 0;
        walk->in -= dim->size * dim->in;
        walk->out -= dim->size * dim->out;
    }
}

/* The dimensions of a copy, those with the shortest steps in out last; neighbours merge where both tensors
 * allow. Returns the number of elements. */
TARGET static int64_t NAME(walk_of)(const Copy *copy, Walk *walk)
{
    int64_t count = 1;
    walk->dims = 0;
    for (int64_t d = 0; d < copy->dims; d++) {
        const Dim new = {copy->shape[d], copy->in.stride[d], copy->out.stride[d]};
        int64_t at = walk->dims;
        count *= new.size;
        if (new.size == 1)
            continue;
        for (; at > 0 && llabs(walk->dim[at - 1].out) < llabs(new.out); at--)
            walk->dim[at] = walk->dim[at - 1];
        walk->dim[at] = new;
        walk->dims++;
    }
    int64_t kept = 0;
    for (int64_t d = 0; d < walk->dims; d++) {
        const Dim next = walk->dim[d];
        Dim *last = walk->dim + kept - 1;
        if (kept && last->in == next.in * next.size && last->out == next.out * next.size)
            *last = (Dim){last->size * next.size, next.in, next.out};
        else
            walk->dim[kept++] = next;
    }
    walk->dims = kept;
    return count;
}

/* Takes dimension `d` out of a walk. */
INLINE Dim NAME(take)(Walk *walk, int64_t d)
{
    const Dim taken = walk->dim[d];
    walk->dims--;
    for (; d < walk->dims; d++)
        walk->dim[d] = walk->dim[d + 1];
    return taken;
}

/* Copies a row. The last vector overlaps the one before, so that nothing beyond the end is touched. */
INLINE void NAME(row)(const float *from, float *to, int64_t count)
{
    if (count >= 1024) {
        memmove(to, from, (size_t)count * sizeof(float));
        return;
    }
    if (count < LANES) {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
        return;
    }
    for (int64_t i = 0; i + LANES <= count; i += LANES)
        *(Vector *)(void *)(to + i) = *NAME(at)(from + i, 0);
    *(Vector *)(void *)(to + count - LANES) = *NAME(at)(from + count - LANES, 0);
}

INLINE void NAME(row_of)(float value, float *to, int64_t count)
{
    if (count < LANES) {
        for (int64_t i = 0; i < count; i++)
            to[i] = value;
        return;
    }
    for (int64_t i = 0; i + LANES <= count; i += LANES)
        *(Vector *)(void *)(to + i) = NAME(all)(value);
    *(Vector *)(void *)(to + count - LANES) = NAME(all)(value);
}

INLINE void NAME(strided_row)(const float *from, int64_t from_step, float *to, int64_t to_step, int64_t count)
{
    if (from_step == 1 && to_step == 1)
        NAME(row)(from, to, count);
    else if (from_step == 0 && to_step == 1)
        NAME(row_of)(*from, to, count);
    else
        for (int64_t i = 0; i < count; i++)
            to[i * to_step] = from[i * from_step];
}

/* to[i * to_step + o] = from[o * from_step + i]: tiles of 16 x 16; the last ones overlap those before. */
TARGET static void NAME(transpose)(const float *from, int64_t from_step, float *to, int64_t to_step, int64_t num_i,
                                   int64_t num_o)
{
    for (int64_t next_o = 0; next_o < num_o; next_o += LANES)
        for (int64_t next_i = 0; next_i < num_i; next_i += LANES) {
            const int64_t o = next_o + LANES <= num_o ? next_o : num_o - LANES;
            const int64_t i = next_i + LANES <= num_i ? next_i : num_i - LANES;
            Vector a[LANES];
            UNROLL for (int l = 0; l < LANES; l++) a[l] = *NAME(at)(from + (o + l) * from_step + i, 0);
            TRANSPOSED(a)
            UNROLL for (int l = 0; l < LANES; l++) * (Vector *)(void *)(to + (i + l) * to_step + o) = a[l];
        }
}

KERNEL_OF(copy)
{
    const Copy *copy = of;
    const float *from = sg_at(context, copy->in.buffer, copy->in.offset);
    float *to = sg_at(context, copy->out.buffer, copy->out.offset);
    Walk walk;
    const int64_t count = NAME(walk_of)(copy, &walk);
    if (count == 0)
        return 0;
    const Dim row = walk.dims ? NAME(take)(&walk, walk.dims - 1) : (Dim){1, 1, 1};
    Dim across = {1, 1, 1}; /* the other dimension of a transposition */
    for (int64_t d = 0; d < walk.dims; d++)
        if (row.out == 1 && row.in != 1 && row.size >= LANES && walk.dim[d].in == 1 && walk.dim[d].size >= LANES) {
            across = NAME(take)(&walk, d);
            break;
        }
    const int64_t piece = across.size > 1 ? BAND : ROW_PIECE, pieces = row.size < piece ? 1 : row.size / piece;
    const int64_t jobs = count / row.size / across.size * pieces;
    const int64_t first = jobs * context->part / context->num_parts;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    NAME(walk_to)(&walk, first / pieces);
    for (int64_t job = first, p = first % pieces; job < last; job++) {
        const float *in = from + walk.in + p * piece * row.in;
        float *out = to + walk.out + p * piece * row.out;
        const int64_t here = p + 1 < pieces ? piece : row.size - p * piece;
        if (across.size > 1)
            NAME(transpose)(in, row.in, out, across.out, across.size, here);
        else
            NAME(strided_row)(in, row.in, out, row.out, here);
        if (++p == pieces) {
            p = 0;
            NAME(walk_on)(&walk);
        }
    }
    return 0;
}

KERNEL_OF(fill)
{
    const Fill *fill = of;
    float *out = sg_at(context, fill->out.buffer, fill->out.offset) + context->begin;
    const int64_t count = context->end - context->begin, pieces = count < ROW_PIECE ? 1 : count / ROW_PIECE;
    const int64_t jobs = fill->channels * pieces;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    if (pieces == 1) { /* divisions would take longer than a small piece */
        const Vector value = NAME(all)(fill->value);
        for (int64_t c = jobs * context->part / context->num_parts; c < last; c++) {
            float *to = out + c * fill->out.stride;
            if (count >= LANES)
                NAME(row_of)(fill->value, to, count);
            else if (count > 0)
                STORE_FIRST(to, value, count);
        }
        return 0;
    }
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t p = job % pieces;
        NAME(row_of)
        (fill->value, out + job / pieces * fill->out.stride + p * ROW_PIECE, p + 1 < pieces ? ROW_PIECE : count - p * ROW_PIECE);
    }
    return 0;
}

/* ---- phases ---- */

/* Every second float; nothing at or after `end` is read, nothing before `from` - 1 if `earlier` says that this is
 * part of the tensor. */
INLINE void NAME(second_row)(const float *from, const float *end, int earlier, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i < count && from + 2 * i + 2 * LANES - earlier <= end; i += LANES) {
        const Vector *pair = NAME(at)(from + 2 * i - earlier, 0);
        const Vector low = pair[0], high = pair[1];
        const Vector even = __builtin_shufflevector(low, high, EVEN), odd = __builtin_shufflevector(low, high, ODD);
        const Vector wanted = earlier ? odd : even;
        if (count - i >= LANES)
            *(Vector *)(void *)(to + i) = wanted;
        else
            STORE_FIRST(to + i, wanted, count - i);
    }
    for (; i < count; i++)
        to[i] = from[2 * i];
}

#define MOST_KNOWN 4  /* phases of a line whose pixels are known beforehand */
#define MOST_MASKS 16 /* vectors of a line whose lanes are known beforehand */

/* What all lines of a phase have in common: pixels before to after of a line come from the image. `inside` are the
 * lanes of each vector of out that do, `lanes` those of the 32 floats that they are every second of. */
typedef struct {
    int64_t first, before, after;
    uint32_t lanes[MOST_MASKS];
    uint16_t inside[MOST_MASKS];
} Pixels;

/* The lowest `count` bits, none or all of 64 beyond. */
static inline uint64_t sg_lanes(int64_t count)
{
    return count <= 0 ? 0 : count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

INLINE Pixels NAME(pixels_of)(const Phases *phases, int64_t x)
{
    const int64_t first = phases->first_x + x, stride = phases->stride_x, width = phases->width;
    int64_t before = first < 0 ? (stride - 1 - first) / stride : 0;
    int64_t after = first < width ? (width - first + stride - 1) / stride : 0;
    after = after < phases->columns ? after : phases->columns;
    Pixels pixels = {first, before < after ? before : after, after, {0}, {0}};
    for (int64_t v = 0; v < MOST_MASKS && v * LANES < phases->line; v++) {
        const int64_t from = pixels.before - v * LANES, to = pixels.after - v * LANES;
        pixels.lanes[v] = (uint32_t)(sg_lanes(2 * to) & ~sg_lanes(2 * from) & 0x55555555u);
        pixels.inside[v] = (uint16_t)(sg_lanes(to) & ~sg_lanes(from));
    }
    return pixels;
}

#ifdef LOAD_MASKED
/* A line of one phase of every second pixel, without a branch for its ends. What follows it up to `limit` is written
 * later, so that vectors may go beyond its end. */
INLINE void NAME(second_line)(const Phases *phases, const Pixels *pixels, const float *line, float *to,
                              const float *limit)
{
    const float *from = line + pixels->first;
    for (int64_t i = 0, v = 0; i < phases->line; i += LANES, v++) {
        const int64_t rest = phases->line - i;
        const Vector one = LOAD_MASKED(from + 2 * i, pixels->lanes[v]);
        const Vector two = LOAD_MASKED(from + 2 * i + LANES, pixels->lanes[v] >> 16);
        Vector wanted = __builtin_shufflevector(one, two, EVEN);
        if (phases->fill != 0)
            wanted = PICK((Choice)pixels->inside[v], wanted, NAME(all)(phases->fill));
        if (rest >= LANES || to + i + LANES <= limit)
            *(Vector *)(void *)(to + i) = wanted;
        else
            STORE_FIRST(to + i, wanted, rest);
    }
}
#endif

/* One line of one phase: pixels first, first + stride, ... of a line of the image, `fill` around. */
INLINE void NAME(phase_line)(const Phases *phases, const Pixels *pixels, const float *line, const float *end, float *to,
                             const float *limit)
{
    const int64_t stride = phases->stride_x, step = phases->in.stride[3];
    const int64_t before = pixels->before, after = pixels->after, first = pixels->first + before * stride;
#ifdef LOAD_MASKED
    if (stride == 2 && step == 1 && phases->line <= MOST_MASKS * LANES) {
        NAME(second_line)(phases, pixels, line, to, limit);
        return;
    }
#else
    (void)limit;
#endif
    NAME(row_of)(phases->fill, to, before);
    if (stride == 2 && step == 1)
        NAME(second_row)(line + first * step, end, first > 0, to + before, after - before);
    else
        NAME(strided_row)(line + first * step, stride * step, to + before, 1, after - before);
    NAME(row_of)(phases->fill, to + after, phases->line - after);
}

/* The lines of image n in one phase of one channel, and what is around them; their part of out begins at `to`. */
TARGET static void NAME(phase_image)(const Phases *phases, const Pixels *pixels, const float *image, const float *end,
                                     int64_t y, float *to)
{
    const float *limit = to + phases->plane;
    for (int64_t i = 0; i < phases->rows; i++) {
        const int64_t at = phases->first_y + y + i * phases->stride_y;
        float *out = to + i * phases->line;
        if (at >= 0 && at < phases->height)
            NAME(phase_line)(phases, pixels, image + at * phases->in.stride[2], end, out, limit);
        else if (phases->line <= LANES && out + LANES <= limit)
            *(Vector *)(void *)out = NAME(all)(phases->fill); /* the next line overwrites what is too much */
        else
            NAME(row_of)(phases->fill, out, phases->line);
    }
    NAME(row_of)(phases->fill, to + phases->rows * phases->line, phases->plane - phases->rows * phases->line);
}

KERNEL_OF(phases)
{
    const Phases *phases = of;
    const int64_t *stride = phases->in.stride, images = phases->images;
    const float *in = sg_at(context, phases->in.buffer, phases->in.offset);
    float *out = sg_at(context, phases->out.buffer, phases->out.offset);
    const int64_t wanted = phases->phases_y * phases->phases_x, jobs = phases->channels * wanted * images;
    const int64_t first = jobs * context->part / context->num_parts;
    const int64_t count = jobs * (context->part + 1) / context->num_parts - first;
    /* counters instead of divisions, which would take longer than a small image */
    int64_t n = first % (images ? images : 1), phase = first / (images ? images : 1) % wanted;
    int64_t c = first / (images ? images : 1) / wanted, y = phase / phases->phases_x, x = phase % phases->phases_x;
    Pixels pixels[MOST_KNOWN + 1];
    for (int64_t i = 0; i < phases->phases_x && i < MOST_KNOWN; i++)
        pixels[i] = NAME(pixels_of)(phases, i);
    for (int64_t job = 0; job < count; job++) {
        const float *image = in + n * stride[0] + c * stride[1];
        const float *end = image + (phases->height - 1) * stride[2] + phases->width; /* if its pixels are neighbours */
        float *to = out + c * phases->out.stride + (y * phases->phases_x + x) * phases->phase;
        if (n == 0)
            NAME(row_of)(phases->fill, to, phases->lead);
        if (x >= MOST_KNOWN)
            pixels[MOST_KNOWN] = NAME(pixels_of)(phases, x);
        const Pixels *of_x = pixels + (x < MOST_KNOWN ? x : MOST_KNOWN);
        NAME(phase_image)(phases, of_x, image, end, y, to + phases->lead + n * phases->plane);
        if (++n < images)
            continue;
        n = 0;
        if (++x < phases->phases_x)
            continue;
        x = 0;
        if (++y < phases->phases_y)
            continue;
        y = 0;
        c++;
    }
    return 0;
}

/* ---- embeddings ---- */

/* Writes the features of `count` neighbours in out, at most sixteen, from rows of the table. */
TARGET static void NAME(embed)(const Embedding *embedding, const float *const row[LANES], int64_t count, float *out)
{
    const int64_t features = embedding->features, step = embedding->feature;
    for (int64_t next = 0; features >= LANES && next < features; next += LANES) {
        const int64_t f = next + LANES <= features ? next : features - LANES;
        Vector a[LANES];
        UNROLL for (int l = 0; l < LANES; l++) a[l] = *NAME(at)(row[l] + f, 0);
        TRANSPOSED(a)
        if (count == LANES) {
            UNROLL for (int l = 0; l < LANES; l++) * (Vector *)(void *)(out + (f + l) * step) = a[l];
        } else {
            UNROLL for (int l = 0; l < LANES; l++) STORE_FIRST(out + (f + l) * step, a[l], count);
        }
    }
    for (int64_t f = 0; features < LANES && f < features; f++)
        for (int64_t l = 0; l < count; l++)
            out[f * step + l] = row[l][f];
}

KERNEL_OF(embedding)
{
    const Embedding *embedding = of;
    const int64_t inner = embedding->dims - 1, width = inner < 0 ? 1 : embedding->shape[inner];
    const int64_t id_step = inner < 0 ? 1 : embedding->id.stride[inner];
    const int64_t out_step = inner < 0 ? 1 : embedding->out.stride[inner];
    const int64_t *ids = (const int64_t *)(const void *)sg_at(context, embedding->id.buffer, 0) + embedding->id.offset;
    float *out = sg_at(context, embedding->out.buffer, embedding->out.offset);
    Walk walk = {.dims = inner < 0 ? 0 : inner};
    int64_t jobs = (width + LANES - 1) / LANES;
    for (int64_t d = 0; d < walk.dims; d++) {
        walk.dim[d] = (Dim){embedding->shape[d], embedding->id.stride[d], embedding->out.stride[d]};
        jobs *= embedding->shape[d];
    }
    const int64_t blocks = (width + LANES - 1) / LANES, last = jobs * (context->part + 1) / context->num_parts;
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t first = job % blocks * LANES, count = width - first < LANES ? width - first : LANES;
        const float *row[LANES];
        NAME(walk_to)(&walk, job / blocks);
        float *to = out + walk.out + first * out_step;
        for (int64_t l = 0; l < LANES; l++) {
            const int64_t id = ids[walk.in + (first + (l < count ? l : 0)) * id_step];
            if (id < 0 || id >= embedding->rows)
                return 1;
            row[l] = embedding->table + id * embedding->features;
        }
        if (out_step == 1 && embedding->feature != 1)
            NAME(embed)(embedding, row, count, to);
        else
            for (int64_t l = 0; l < count; l++)
                NAME(strided_row)(row[l], 1, to + l * out_step, embedding->feature, embedding->features);
    }
    return 0;
}
