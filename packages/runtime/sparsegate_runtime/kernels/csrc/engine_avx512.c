/* The engine on processors with AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma,bmi,bmi2")))
#define MAX_TILE 28
#define LARGER(one, two) ((Vector)_mm512_max_ps((__m512)(one), (__m512)(two)))
#define STORE_FIRST(to, vector, count) _mm512_mask_storeu_ps(to, (__mmask16)((1u << (count)) - 1), (__m512)(vector))
#include "engine_variant.h"
#else
typedef int nothing_here;
#endif
