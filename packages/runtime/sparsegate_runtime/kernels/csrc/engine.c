/* Runs programs: the steps in order, every step by all threads together. */
#include "engine.h"
#include "kernels.h"

#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

static const Kernel *kernels_for(int64_t variant)
{
#if defined(__x86_64__)
    if (variant == AVX512)
        return sg_engine_avx512;
    if (variant == AVX2)
        return sg_engine_avx2;
#endif
    (void)variant;
    return sg_engine_plain;
}

/* Steps `first` to `last`, as thread `me` of `all`. */
static int64_t run(const Program *program, const Kernel *kernels, float *const *buffers, int64_t first, int64_t last,
                   float *scratch, int me, int all)
{
    int64_t failed = 0;
    for (int64_t s = first; s < last; s++) {
        const Step *step = program->steps + s;
        const Operation *operation = program->operations + step->operation;
        const Context context = {buffers, step->begin, step->end, me, all, scratch + me * program->scratch};
        failed |= kernels[operation->kind](operation->of, &context);
        if (all > 1) {
#pragma omp barrier
        }
    }
    return failed;
}

/* Runs some steps of a program. `buffers` are the arena and the tensors of this call; `scratch` has
 * `program->scratch` floats for each thread. Returns nonzero if an operation found bad data. */
KERNEL int64_t sg_engine_run(const Program *program, float *const *buffers, int64_t first, int64_t last, float *scratch,
                             int64_t num_threads, int64_t variant)
{
    const Kernel *kernels = kernels_for(variant);
    int64_t failed = 0;
    if (num_threads < 2)
        return run(program, kernels, buffers, first, last, scratch, 0, 1);
#pragma omp parallel num_threads(num_threads) reduction(| : failed)
    failed |= run(program, kernels, buffers, first, last, scratch, omp_get_thread_num(), omp_get_num_threads());
    return failed;
}
