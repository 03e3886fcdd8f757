/* A dense matrix product with NEON, to compare numbers of instructions with: dense ROWS INNER COLUMNS RUNS.
 *
 * Eight rows and twelve columns are summed in 24 registers, as in the fastest dense libraries. Both matrices lie packed
 * in memory already, so that the count is that of the arithmetic alone. */
#include <arm_neon.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 8
#define COLUMNS 12
#define ROW(r, values, lane)                                  \
    sum[r][0] = vfmaq_laneq_f32(sum[r][0], x0, values, lane); \
    sum[r][1] = vfmaq_laneq_f32(sum[r][1], x1, values, lane); \
    sum[r][2] = vfmaq_laneq_f32(sum[r][2], x2, values, lane);

/* weight: [inner][8]; in: [inner][12]; out: [8][12] */
static void tile(long inner, const float *weight, const float *in, float *out)
{
    float32x4_t sum[ROWS][3];
    for (int r = 0; r < ROWS; r++)
        sum[r][0] = sum[r][1] = sum[r][2] = vdupq_n_f32(0);
    for (long k = 0; k < inner; k++, weight += ROWS, in += COLUMNS) {
        const float32x4_t low = vld1q_f32(weight), high = vld1q_f32(weight + 4);
        const float32x4_t x0 = vld1q_f32(in), x1 = vld1q_f32(in + 4), x2 = vld1q_f32(in + 8);
        ROW(0, low, 0) ROW(1, low, 1) ROW(2, low, 2) ROW(3, low, 3)
        ROW(4, high, 0) ROW(5, high, 1) ROW(6, high, 2) ROW(7, high, 3)
    }
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < 3; t++)
            vst1q_f32(out + r * COLUMNS + 4 * t, sum[r][t]);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 1;
    const long rows = (atol(argv[1]) + ROWS - 1) / ROWS, inner = atol(argv[2]);
    const long columns = (atol(argv[3]) + COLUMNS - 1) / COLUMNS;
    float *weight = calloc((size_t)(rows * inner * ROWS), sizeof(float));
    float *in = calloc((size_t)(columns * inner * COLUMNS), sizeof(float));
    float *out = calloc((size_t)(rows * columns * ROWS * COLUMNS), sizeof(float));
    for (long runs = atol(argv[4]); runs > 0; runs--)
        for (long r = 0; r < rows; r++)
            for (long c = 0; c < columns; c++)
                tile(inner, weight + r * inner * ROWS, in + c * inner * COLUMNS, out + (r * columns + c) * ROWS * COLUMNS);
    printf("%g\n", (double)out[0]);
    return 0;
}
