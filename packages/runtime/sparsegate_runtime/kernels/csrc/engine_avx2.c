/* The engine on processors with AVX2: a vector takes two registers. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

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

typedef int32_t Choice __attribute__((vector_size(32)));
#define WIDTH 8
#define ABOVE(a, b) ((Choice)_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_GT_OQ))
#define UNKNOWN(a) ((Choice)_mm256_cmp_ps((__m256)(a), (__m256)(a), _CMP_UNORD_Q))
#define PICK(choice, a, b) ((Part)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(choice)))
#define LARGER_PART(a, b) ((Part)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER_PART(a, b) ((Part)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define ROOT(a) ((Part)_mm256_sqrt_ps((__m256)(a)))

#include "engine_variant.h"
#else
typedef int nothing_here;
#endif
