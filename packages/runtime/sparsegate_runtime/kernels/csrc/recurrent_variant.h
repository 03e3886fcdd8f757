/* Recurrent layers for one kind of processor: a part of variant.h. */
#include "recurrent.h"

/* Where a comparison holds the first vector, else the second. */
INLINE Vector NAME(select)(Bits holds, Vector one, Vector two)
{
    return (Vector)(((Bits)one & holds) | ((Bits)two & ~holds));
}

#if PIECES > 1 && defined(__OPTIMIZE_SIZE__)
#define SHARED TARGET static __attribute__((noinline))
#else
#define SHARED INLINE
#endif

typedef uint32_t Unsigned __attribute__((vector_size(4 * LANES), aligned(4)));

/* The exponential function, to about two units in the last place; a NaN stays one, and large inputs saturate. */
SHARED Vector NAME(exponential)(Vector x)
{
    const Vector most = NAME(all)(88.0f), least = NAME(all)(-87.0f), shift = NAME(all)(12582912.0f);
    x = NAME(select)(x > most, most, x);
    x = NAME(select)(x < least, least, x);
    const Vector shifted = x * 1.44269504f + shift; /* the nearest whole power of two, in the lowest bits */
    const Vector power = shifted - shift;
    const Vector rest = x - power * 0.693359375f + power * 2.12194440e-4f;
    Vector sum = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    const Unsigned scale = (((Unsigned)shifted << 23) + (127u << 23)) & 0x7f800000u;
    return sum * (Vector)scale;
}

INLINE Vector NAME(sigmoid)(Vector x)
{
    return 1.0f / (1.0f + NAME(exponential)(-x));
}

INLINE Vector NAME(tangent)(Vector x)
{
    return 2.0f / (1.0f + NAME(exponential)(-2.0f * x)) - 1.0f;
}

/* Sixteen units, or one unit of sixteen images, one step further. Gates lie `gate` floats apart in the input's part and
 * in the recurrent sums. */
INLINE void NAME(step)(const int cell, const float *in, const float *sums, int64_t gate, float *state, float *memory)
{
    const Vector *x = NAME(at)(in, 0), *h = NAME(at)(sums, 0), *before = NAME(at)(state, 0);
    Vector after;
    if (cell == LSTM_CELL) {
        const Vector input = NAME(sigmoid)(*x + *h);
        const Vector forget = NAME(sigmoid)(*NAME(at)(in, 4 * gate) + *NAME(at)(sums, 4 * gate));
        const Vector candidate = NAME(tangent)(*NAME(at)(in, 8 * gate) + *NAME(at)(sums, 8 * gate));
        const Vector output = NAME(sigmoid)(*NAME(at)(in, 12 * gate) + *NAME(at)(sums, 12 * gate));
        const Vector kept = forget * *NAME(at)(memory, 0) + input * candidate;
        *(Vector *)(void *)memory = kept;
        after = output * NAME(tangent)(kept);
    } else if (cell == GRU_CELL) {
        const Vector reset = NAME(sigmoid)(*x + *h);
        const Vector update = NAME(sigmoid)(*NAME(at)(in, 4 * gate) + *NAME(at)(sums, 4 * gate));
        const Vector fresh = NAME(tangent)(*NAME(at)(in, 8 * gate) + reset * *NAME(at)(sums, 8 * gate));
        after = fresh + update * (*before - fresh);
    } else if (cell == TANH_CELL) {
        after = NAME(tangent)(*x + *h);
    } else {
        after = LARGER(NAME(all)(0), *x + *h);
    }
    *(Vector *)(void *)state = after;
}

TARGET static void NAME(steps_of)(int64_t cell, int64_t count, int64_t gate, const float *in, const float *sums, float *state,
                           float *memory)
{
#define EVERY(CELL)                                                                                                    \
    for (int64_t i = 0; i < count; i += LANES)                                                                         \
        NAME(step)(CELL, in + i, sums + i, gate, state + i, memory + i);
    if (cell == LSTM_CELL) {
        EVERY(LSTM_CELL)
    } else if (cell == GRU_CELL) {
        EVERY(GRU_CELL)
    } else if (cell == TANH_CELL) {
        EVERY(TANH_CELL)
    } else {
        EVERY(RELU_CELL)
    }
#undef EVERY
}

/* One image: its units are innermost. Vectors at the end may reach into the slack behind a row. */
TARGET void NAME(sg_steps_single)(const Sequence *call, int64_t first, int64_t count, float *scratch)
{
    const Recurrent *net = call->net;
    const int64_t hidden = net->hidden, rows = net->matrix.rows;
    float *state = scratch, *memory = state + hidden + SLACK, *sums = memory + hidden + SLACK;
    float *in = sums + rows + SLACK;
    if (count < 1)
        return;
    memset(scratch, 0, (size_t)(2 * (hidden + rows) + 4 * SLACK) * sizeof(float));
    memcpy(state, call->state + first * hidden, (size_t)hidden * sizeof(float));
    if (net->cell == LSTM_CELL)
        memcpy(memory, call->memory + first * hidden, (size_t)hidden * sizeof(float));
    for (int64_t t = 0; t < call->steps; t++) {
        const int64_t step = call->reverse ? call->steps - 1 - t : t;
        memcpy(in, call->in + step * call->in_step + first * call->in_image, (size_t)rows * sizeof(float));
        NAME(slices)(&net->matrix.slices, net->matrix.bias, net->matrix.relu, 0, net->matrix.slices.num_slices, state, sums, 1);
        NAME(steps_of)(net->cell, hidden, hidden, in, sums, state, memory);
        memcpy(call->out + step * call->out_step + first * call->out_image, state, (size_t)hidden * sizeof(float));
    }
    memcpy(call->state + first * hidden, state, (size_t)hidden * sizeof(float));
    if (net->cell == LSTM_CELL)
        memcpy(call->memory + first * hidden, memory, (size_t)hidden * sizeof(float));
}

/* Rows of up to sixteen images, to sixteen images innermost; images beyond the last repeat it. */
TARGET static void NAME(to_lanes)(const float *from, int64_t image_step, int64_t images, int64_t size, float *to)
{
    const float *rows[LANES];
    for (int64_t i = 0; i < LANES; i++)
        rows[i] = from + (i < images ? i : images - 1) * image_step;
    for (int64_t f = 0; f < size; f += LANES)
        NAME(transpose_in)(rows, f, size - f < LANES ? size - f : LANES, size - f, to + f * LANES, LANES);
}

/* And back. */
TARGET static void NAME(from_lanes)(const float *from, int64_t size, float *to, int64_t image_step, int64_t images)
{
    const int64_t whole = size / LANES * LANES;
    for (int64_t f = 0; f < whole; f += LANES)
        NAME(transpose_out)(from + f * LANES, LANES, to + f, image_step, images);
    for (int64_t i = 0; i < images; i++)
        for (int64_t f = whole; f < size; f++)
            to[i * image_step + f] = from[f * LANES + i];
}

/* All rows times one vector of sixteen images. */
TARGET static void NAME(one_vector)(const Rows *rows, int64_t num_rows, const float *x, const float *bias, float *out)
{
    for (int64_t b = 0; b < rows->num_blocks; b++)
        NAME(tile)(1, 1, rows, num_rows, b, 0, num_rows, x, bias, 0, out, LANES);
}

/* Sixteen images: they are innermost. */
TARGET void NAME(sg_steps)(const Sequence *call, int64_t first, int64_t count, float *scratch)
{
    const Recurrent *net = call->net;
    const int64_t hidden = net->hidden, rows = net->matrix.rows;
    float *state = scratch, *memory = state + LANES * hidden + SLACK, *sums = memory + LANES * hidden + SLACK;
    float *in = sums + LANES * rows + SLACK;
    NAME(to_lanes)(call->state + first * hidden, hidden, count, hidden, state);
    if (net->cell == LSTM_CELL)
        NAME(to_lanes)(call->memory + first * hidden, hidden, count, hidden, memory);
    for (int64_t t = 0; t < call->steps; t++) {
        const int64_t step = call->reverse ? call->steps - 1 - t : t;
        NAME(to_lanes)(call->in + step * call->in_step + first * call->in_image, call->in_image, count, rows, in);
        NAME(one_vector)(&net->matrix.panel, rows, state, net->matrix.bias, sums);
        NAME(steps_of)(net->cell, hidden * LANES, hidden * LANES, in, sums, state, memory);
        NAME(from_lanes)(state, hidden, call->out + step * call->out_step + first * call->out_image, call->out_image, count);
    }
    NAME(from_lanes)(state, hidden, call->state + first * hidden, hidden, count);
    if (net->cell == LSTM_CELL)
        NAME(from_lanes)(memory, hidden, call->memory + first * hidden, hidden, count);
}
