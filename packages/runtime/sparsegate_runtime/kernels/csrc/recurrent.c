/* Runs recurrent layers over sequences: shares the images among threads and picks the processor's variant. */
#include "recurrent.h"
#include "kernels.h"

#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

static RunSequence run_for(int64_t variant, int64_t single)
{
#if defined(__x86_64__)
    if (variant == AVX512)
        return single ? sg_steps_single_avx512 : sg_steps_avx512;
    if (variant == AVX2)
        return single ? sg_steps_single_avx2 : sg_steps_avx2;
#endif
    (void)variant;
    return single ? sg_steps_single_plain : sg_steps_plain;
}

/* Floats of scratch memory that each thread needs: the state, the cell state, the input's part and the sums. */
KERNEL int64_t sg_recurrent_scratch(const Recurrent *net, int64_t single)
{
    const int64_t lanes = single ? 1 : LANES;
    return lanes * (2 * net->hidden + 2 * net->matrix.rows) + 8 * SLACK;
}

/* Sends the images through all steps, one image at a time or in panels of sixteen. */
KERNEL int64_t sg_recurrent(const Sequence *call, float *scratch, int64_t single, int64_t num_threads, int64_t variant)
{
    const RunSequence run = run_for(variant, single);
    const int64_t lanes = single ? 1 : LANES, num_panels = (call->images + lanes - 1) / lanes;
    const int64_t size = sg_recurrent_scratch(call->net, single);
#pragma omp parallel num_threads(num_threads) if (num_threads > 1)
    {
        const int me = omp_get_thread_num(), all = omp_get_num_threads();
        for (int64_t panel = me; panel < num_panels; panel += all) {
            const int64_t first = panel * lanes, left = call->images - first;
            run(call, first, left < lanes ? left : lanes, scratch + me * size);
        }
    }
    return 0;
}
