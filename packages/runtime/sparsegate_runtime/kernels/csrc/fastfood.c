/* The adaptive Fastfood transform, S H G P H B, row by row: a row stays in the first cache from its signs
 * to its scales. The transforms are in Sylvester's order and in place; they are scaled at the end. */
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define LANES 16
#define MAX_SIZE 8192   /* two rows of this size are on the stack */
#define WORTH (1 << 15) /* numbers from which more threads pay off */

#if defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 12)
#define HAS_SHUFFLE 1
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));

/* Lanes 1, 2, 4 and 8 apart: the lower lane becomes their sum, the higher their difference. */
#define BUTTERFLY(v, SIGNS, ...) (__builtin_shufflevector(v, v, __VA_ARGS__) + (v) * (Vector)SIGNS)
#define SIGNS_1 {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}
#define SIGNS_2 {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1}
#define SIGNS_4 {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1}
#define SIGNS_8 {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}

static inline void lanes(float *x)
{
    Vector v = *(Vector *)(void *)x;
    v = BUTTERFLY(v, SIGNS_1, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    v = BUTTERFLY(v, SIGNS_2, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v = BUTTERFLY(v, SIGNS_4, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v = BUTTERFLY(v, SIGNS_8, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    *(Vector *)(void *)x = v;
}
#else
#define HAS_SHUFFLE 0
#endif

/* One pass, over pairs of numbers that are `step` apart. */
static inline void pass(float *x, int64_t size, int64_t step)
{
    for (int64_t begin = 0; begin < size; begin += 2 * step)
        for (int64_t i = begin; i < begin + step; i++) {
            float a = x[i], b = x[i + step];
            x[i] = a + b;
            x[i + step] = a - b;
        }
}

/* Two passes at once: the second has its numbers in registers. */
static inline void two_passes(float *x, int64_t size, int64_t step)
{
    for (int64_t begin = 0; begin < size; begin += 4 * step)
        for (int64_t i = begin; i < begin + step; i++) {
            float a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
            float ab = a + b, cd = c + d, a_b = a - b, c_d = c - d;
            x[i] = ab + cd;
            x[i + step] = a_b + c_d;
            x[i + 2 * step] = ab - cd;
            x[i + 3 * step] = a_b - c_d;
        }
}

static inline void walsh_hadamard(float *x, int64_t size)
{
    int64_t step = 1;
#if HAS_SHUFFLE
    if (size >= LANES) {
        for (int64_t i = 0; i < size; i += LANES)
            lanes(x + i);
        step = LANES;
    }
#endif
    for (; 4 * step <= size; step *= 4)
        two_passes(x, size, step);
    if (step < size)
        pass(x, size, step);
}

typedef struct {
    int64_t inputs, size, features;
    const float *signs;   /* B [blocks][size] */
    const int64_t *order; /* P [blocks * size], each within its block */
    const float *gains;   /* G [blocks][size] */
    const float *scales;  /* S [features] */
    const float *bias;    /* [features], or NULL */
} Layer;

/* The features of one block for one row. */
FOR_EACH_PROCESSOR static void block_of(const Layer *layer, int64_t block, const float *x, float *out)
{
    float one[MAX_SIZE], two[MAX_SIZE];
    const int64_t size = layer->size, first = block * size;
    const int64_t count = layer->features - first < size ? layer->features - first : size;
    const float *signs = layer->signs + first, *gains = layer->gains + first, *scales = layer->scales + first;
    const int64_t *order = layer->order + first;
    const float factor = 1.0f / (float)size; /* of two orthonormal transforms */
    for (int64_t i = 0; i < layer->inputs; i++)
        one[i] = x[i] * signs[i];
    memset(one + layer->inputs, 0, (size_t)(size - layer->inputs) * sizeof *one);
    walsh_hadamard(one, size);
    for (int64_t i = 0; i < size; i++)
        two[i] = one[order[i] & (size - 1)] * gains[i]; /* in bounds, whatever the order says */
    walsh_hadamard(two, size);
    if (layer->bias)
        for (int64_t i = 0; i < count; i++)
            out[first + i] = two[i] * (factor * scales[i]) + layer->bias[first + i];
    else
        for (int64_t i = 0; i < count; i++)
            out[first + i] = two[i] * (factor * scales[i]);
}

/* Writes the features of each row of x [rows][inputs] to out [rows][features]; returns -1 for an
 * unsupported size. */
KERNEL int64_t sg_fastfood(const float *x, int64_t rows, int64_t inputs, int64_t size, int64_t features,
                           const float *signs, const int64_t *order, const float *gains, const float *scales,
                           const float *bias, float *out, int num_threads)
{
    if (size < 1 || size > MAX_SIZE || (size & (size - 1)) || inputs < 0 || inputs > size || features < 1)
        return -1;
    const Layer layer = {inputs, size, features, signs, order, gains, scales, bias};
    const int64_t blocks = (features + size - 1) / size;
#pragma omp parallel for num_threads(num_threads) if (num_threads > 1 && rows * blocks * size >= WORTH)
    for (int64_t job = 0; job < rows * blocks; job++)
        block_of(&layer, job % blocks, x + job / blocks * inputs, out + job / blocks * features);
    return 0;
}
