/* Chains of sparse layers on processors with AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma")))
#define MAX_TILE 28
#define LARGER(one, two) ((Vector)_mm512_max_ps((__m512)(one), (__m512)(two)))
#define GATHER(base, index)                                                                                            \
    ((Vector)_mm512_i32gather_ps(                                                                                      \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(index))), base, 4))
#include "variant.h"
#else
typedef int nothing_here;
#endif
