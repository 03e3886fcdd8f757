/* Finds the kernels that this processor can run. */
#include "processor.h"

#include "chain.h"
#include "kernels.h"

/* The fastest kernels for this processor, by the numbers of chain.h. */
KERNEL int64_t sg_variant(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return AVX2;
#endif
#if defined(__aarch64__)
    return NEON;
#elif defined(__wasm_simd128__)
    return WASM;
#endif
    return PLAIN;
}

int64_t sg_supports(int64_t variant)
{
    const int64_t best = sg_variant();
    if (variant == best || variant == PLAIN)
        return 1;
    return best == AVX512 && variant == AVX2;
}
