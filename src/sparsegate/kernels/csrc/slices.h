/* A sparse matrix times one vector, for one kind of processor: a part of variant.h. */

/* The i-th of the four 16-bit numbers in a word, as they stand in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LEAST(word, i) ((word) >> (16 * (i)) & 65535)
#else
#define LEAST(word, i) ((word) >> (48 - 16 * (i)) & 65535)
#endif

/* Slices of eight rows: eight sums, one in each register. A step's columns come in two words and are taken apart, which
 * leaves the processor's loads to the inputs and the weights; its own gathers are slower than that, or hardly faster. */
TARGET static void NAME(slices)(const Layer *layer, int64_t s0, int64_t s1, const float *x, float *out)
{
    const Slices *slices = &layer->slices;
    for (int64_t s = s0; s < s1; s++) {
        float sum[8] = {0};
        const float *value = slices->value + 8 * (int64_t)slices->start[s];
        const uint16_t *column = slices->column + 8 * (int64_t)slices->start[s];
        for (int32_t k = slices->start[s]; k < slices->start[s + 1]; k++, value += 8, column += 8) {
            uint64_t low, high;
            __builtin_prefetch(value + 128); /* else it takes some calls until the matrix is in the caches */
            __builtin_prefetch(column + 128);
            memcpy(&low, column, 8);
            memcpy(&high, column + 4, 8);
            sum[0] += value[0] * x[LEAST(low, 0)];
            sum[1] += value[1] * x[LEAST(low, 1)];
            sum[2] += value[2] * x[LEAST(low, 2)];
            sum[3] += value[3] * x[LEAST(low, 3)];
            sum[4] += value[4] * x[LEAST(high, 0)];
            sum[5] += value[5] * x[LEAST(high, 1)];
            sum[6] += value[6] * x[LEAST(high, 2)];
            sum[7] += value[7] * x[LEAST(high, 3)];
        }
        for (int i = 0; i < 8; i++) {
            int32_t row = slices->row[8 * s + i];
            if (row < 0)
                continue;
            float all = sum[i] + layer->bias[row];
            out[row] = layer->relu && all < 0 ? 0 : all;
        }
    }
}
