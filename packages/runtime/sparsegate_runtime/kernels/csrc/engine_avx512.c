/* The engine on processors with AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma,bmi,bmi2")))
#define MAX_TILE 28
#define LARGER(one, two) ((Vector)_mm512_max_ps((__m512)(one), (__m512)(two)))
#define STORE_FIRST(to, vector, count) _mm512_mask_storeu_ps(to, (__mmask16)((1u << (count)) - 1), (__m512)(vector))
#define LOAD_MASKED(from, lanes) ((Vector)_mm512_maskz_loadu_ps((__mmask16)(lanes), from))

typedef __mmask16 Choice;
#define WIDTH 16
#define IN_REGISTER(value) __asm__("" : "+v"(value))
#define ABOVE(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_GT_OQ)
#define UNKNOWN(a) _mm512_cmp_ps_mask((__m512)(a), (__m512)(a), _CMP_UNORD_Q)
#define PICK(choice, a, b) ((Part)_mm512_mask_blend_ps(choice, (__m512)(b), (__m512)(a)))
#define LARGER_PART(a, b) ((Part)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLER_PART(a, b) ((Part)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define ROOT(a) ((Part)_mm512_sqrt_ps((__m512)(a)))
#define SCALED(a, power) ((Part)_mm512_scalef_ps((__m512)(a), (__m512)(power)))

/* Bits 0 to 4 choose from a pair of registers, 5 and 6 the pair. */
#define PAIR_OF_BLOCK(block, i, index) \
    _mm512_permutex2var_ps((__m512)(block)->part[2 * (i)], index, (__m512)(block)->part[2 * (i) + 1])
#define PICK_OF_BLOCK(block, column) sg_pick_of_block(block, column)
#define PICK_OF_BLOCK_FUNCTION                                                                                        \
    TARGET static inline __attribute__((always_inline)) Vector sg_pick_of_block(const Block *block, const uint8_t *column) \
    {                                                                                                                 \
        const __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)column));           \
        const __mmask16 odd = _mm512_test_epi32_mask(index, _mm512_set1_epi32(32));                                   \
        const __mmask16 high = _mm512_test_epi32_mask(index, _mm512_set1_epi32(64));                                  \
        const __m512 low = _mm512_mask_blend_ps(odd, PAIR_OF_BLOCK(block, 0, index), PAIR_OF_BLOCK(block, 1, index)); \
        const __m512 up = _mm512_mask_blend_ps(odd, PAIR_OF_BLOCK(block, 2, index), PAIR_OF_BLOCK(block, 3, index));  \
        return (Vector)_mm512_mask_blend_ps(high, low, up);                                                           \
    }

#include "engine_variant.h"
#else
typedef int nothing_here;
#endif
