/* A sparse matrix times one vector, for one kind of processor: a part of variant.h. */

/* The i-th of the four 16-bit numbers in a word, in memory order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LEAST(word, i) ((word) >> (16 * (i)) & 65535)
#else
#define LEAST(word, i) ((word) >> (48 - 16 * (i)) & 65535)
#endif

INLINE int64_t NAME(split_slices)(const Slices *slices, int64_t part, int64_t num_parts)
{
    int64_t wanted = slices->start[slices->num_slices] * part / num_parts, s = 0;
    if (part == num_parts)
        return slices->num_slices;
    while (s < slices->num_slices && slices->start[s] < wanted)
        s++;
    return s;
}

/* The inputs of four rows. One load reads their four columns, and the weights are multiplied four at a
 * time: loads are the bottleneck, and both leave them to the inputs. A gather instruction is slower than
 * this, or hardly faster. */
INLINE Quad NAME(inputs)(const float *x, const uint16_t *column)
{
    uint64_t word;
    memcpy(&word, column, 8);
    return (Quad){x[LEAST(word, 0)], x[LEAST(word, 1)], x[LEAST(word, 2)], x[LEAST(word, 3)]};
}

INLINE Quad NAME(weights)(const float *value)
{
    return *(const Quad *)(const void *)value;
}

/* Slices of eight rows: eight sums in two registers for even steps, and two more registers for odd steps. */
TARGET static void NAME(slices)(const Slices *slices, const float *bias, int64_t relu, int64_t s0, int64_t s1,
                                const float *x, float *out, int64_t out_step)
{
    for (int64_t s = s0; s < s1; s++) {
        Quad low = {0}, high = {0}, odd_low = {0}, odd_high = {0};
        const float *value = slices->value + 8 * (int64_t)slices->start[s];
        const uint16_t *column = slices->column + 8 * (int64_t)slices->start[s];
        int32_t k = slices->start[s], end = slices->start[s + 1];
        for (; k + 2 <= end; k += 2, value += 16, column += 16) {
            /* without it, the matrix enters the caches only after some calls */
            __builtin_prefetch(value + 128);
            __builtin_prefetch(column + 128);
            low += NAME(weights)(value) * NAME(inputs)(x, column);
            high += NAME(weights)(value + 4) * NAME(inputs)(x, column + 4);
            odd_low += NAME(weights)(value + 8) * NAME(inputs)(x, column + 8);
            odd_high += NAME(weights)(value + 12) * NAME(inputs)(x, column + 12);
        }
        if (k < end) {
            low += NAME(weights)(value) * NAME(inputs)(x, column);
            high += NAME(weights)(value + 4) * NAME(inputs)(x, column + 4);
        }
        low += odd_low;
        high += odd_high;
        for (int i = 0; i < 8; i++) {
            int32_t row = slices->row[8 * s + i];
            if (row < 0)
                continue;
            float all = (i < 4 ? low[i] : high[i - 4]) + bias[row];
            out[row * out_step] = relu && all < 0 ? 0 : all;
        }
    }
}
