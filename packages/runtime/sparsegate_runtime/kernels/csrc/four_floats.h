/* Vectors as registers of four floats: NEON, WebAssembly's SIMD, or what the compiler makes of them elsewhere. */
#ifndef SPARSEGATE_FOUR_FLOATS_H
#define SPARSEGATE_FOUR_FLOATS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float Wide __attribute__((vector_size(64), aligned(4)));
typedef float Four __attribute__((vector_size(16), aligned(4)));
typedef int32_t Choice __attribute__((vector_size(16)));
typedef union {
    Wide whole;
    Four quarter[4];
} Quarters;

/* LARGER_FOUR and SMALLER_FOUR give the second if one is NaN, as on x86. */
#if defined(__aarch64__)
#include <arm_neon.h>
#define ABOVE_FOUR(a, b) ((Choice)vcgtq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define PICK_FOUR(choice, a, b) ((Four)vbslq_f32((uint32x4_t)(choice), (float32x4_t)(a), (float32x4_t)(b)))
#define LARGER_FOUR(a, b) PICK_FOUR(ABOVE_FOUR(a, b), a, b)
#define SMALLER_FOUR(a, b) PICK_FOUR(ABOVE_FOUR(b, a), a, b)
#define ROOT_FOUR(a) ((Four)vsqrtq_f32((float32x4_t)(a)))
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define ABOVE_FOUR(a, b) ((Choice)wasm_f32x4_gt((v128_t)(a), (v128_t)(b)))
#define PICK_FOUR(choice, a, b) ((Four)wasm_v128_bitselect((v128_t)(a), (v128_t)(b), (v128_t)(choice)))
#define LARGER_FOUR(a, b) ((Four)wasm_f32x4_pmax((v128_t)(b), (v128_t)(a)))
#define SMALLER_FOUR(a, b) ((Four)wasm_f32x4_pmin((v128_t)(b), (v128_t)(a)))
#define ROOT_FOUR(a) ((Four)wasm_f32x4_sqrt((v128_t)(a)))
#else
#define ABOVE_FOUR(a, b) ((Choice)((a) > (b)))
#define PICK_FOUR(choice, a, b) ((Four)(((choice) & (Choice)(a)) | (~(choice) & (Choice)(b))))
#define LARGER_FOUR(a, b) PICK_FOUR(ABOVE_FOUR(a, b), a, b)
#define SMALLER_FOUR(a, b) PICK_FOUR(ABOVE_FOUR(b, a), a, b)
#define ROOT_FOUR(a) ((Four){sqrtf((a)[0]), sqrtf((a)[1]), sqrtf((a)[2]), sqrtf((a)[3])})
#endif

static inline Wide sg_larger(Wide one, Wide two)
{
    Quarters a = {one}, b = {two};
    for (int i = 0; i < 4; i++)
        a.quarter[i] = LARGER_FOUR(a.quarter[i], b.quarter[i]);
    return a.whole;
}

#define NAME(x) x##_plain
#define TARGET
#define MAX_TILE 6
#define PIECE 4
#define LARGER(one, two) sg_larger(one, two)
#define STORE_FIRST(to, vector, count) memcpy(to, &(vector), (size_t)(count) * sizeof(float))

#endif
