/* Included by every kernel: plain C11, with OpenMP if available. Python calls the kernels with pointers by
 * ctypes. */
#ifndef SPARSEGATE_KERNELS_H
#define SPARSEGATE_KERNELS_H

#if defined(_WIN32)
#define KERNEL __declspec(dllexport)
#else
#define KERNEL __attribute__((visibility("default")))
#endif

/* A function that is compiled twice; the loader picks the version for the processor. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#endif
