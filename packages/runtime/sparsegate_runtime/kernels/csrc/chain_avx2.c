/* Chains of sparse layers on processors with AVX2: a vector takes two registers. */
#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma,bmi,bmi2")))
#define MAX_TILE 6
#define PIECE 8
#define LARGER(one, two) sg_larger(one, two)
#define STORE_FIRST(to, vector, count) memcpy(to, &(vector), (size_t)(count) * sizeof(float))

typedef float Wide __attribute__((vector_size(64), aligned(4)));
typedef union {
    Wide whole;
    __m256 half[2];
} Halves;

TARGET static inline Wide sg_larger(Wide one, Wide two)
{
    Halves a = {one}, b = {two};
    a.half[0] = _mm256_max_ps(a.half[0], b.half[0]);
    a.half[1] = _mm256_max_ps(a.half[1], b.half[1]);
    return a.whole;
}

#include "variant.h"
#else
typedef int nothing_here;
#endif
