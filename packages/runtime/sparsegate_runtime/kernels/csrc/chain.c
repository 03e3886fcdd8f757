/* Runs images through a chain of sparse layers: distributes the work and picks the variant for the
 * processor. */
#include "chain.h"
#include "kernels.h"

#include <stdlib.h>

#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

#define LINE 64 /* bytes: alignment of scratch memory */

static Run run_for(int64_t variant, int64_t single)
{
#if defined(__x86_64__)
    if (variant == AVX512)
        return single ? sg_single_avx512 : sg_panel_avx512;
    if (variant == AVX2)
        return single ? sg_single_avx2 : sg_panel_avx2;
#endif
    (void)variant;
    return single ? sg_single_plain : sg_panel_plain;
}

static int64_t lanes_of(const Chain *chain, int64_t single)
{
    return single ? 1 : LANES * chain->vectors;
}

/* Size of one thread's buffers and sums, in floats. */
static int64_t share_of(const Chain *chain, int64_t single)
{
    int64_t sums = single ? chain->single_rows : chain->panel_rows;
    return 2 * (chain->buffer_size * lanes_of(chain, single) + SLACK) + sums + SLACK;
}

/* Size of the scratch memory of `sg_chain`, in floats. */
KERNEL int64_t sg_chain_scratch(const Chain *chain, int64_t single, int64_t num_threads)
{
    return share_of(chain, single) * num_threads;
}

/* A task that starts at image `first`, with the buffers of thread `owner` and the sums of thread `part`. */
static Task task_for(const Chain *chain, const float *in, float *out, float *scratch, int64_t single, int64_t owner)
{
    int64_t lanes = lanes_of(chain, single), size = chain->buffer_size * lanes + SLACK;
    float *mine = scratch + owner * share_of(chain, single);
    Task task = {chain, in, out, {mine, mine + size}, mine + 2 * size, 0, 0, single ? 1 : chain->vectors, 0, 1};
    return task;
}

/* The work of thread `me` of `all`: with fewer panels than threads, the threads share the rows of each
 * layer; otherwise each takes whole panels. */
static void share(const Chain *chain, const float *in, float *out, int64_t count, float *scratch, int64_t single,
                  Run run, int me, int all)
{
    const int64_t lanes = lanes_of(chain, single), num_panels = (count + lanes - 1) / lanes;
    const int together = all > 1 && num_panels < all;
    Task task = task_for(chain, in, out, scratch, single, together ? 0 : me);
    if (together) {
        task.sums = task_for(chain, in, out, scratch, single, me).sums;
        task.part = me;
        task.num_parts = all;
    }
    for (int64_t panel = together ? 0 : me; panel < num_panels; panel += together ? 1 : all) {
        task.first = panel * lanes;
        task.count = count - task.first < lanes ? count - task.first : lanes;
        run(&task);
    }
}

/* Runs `count` images through the chain, one at a time or in panels. */
KERNEL int64_t sg_chain(const Chain *chain, const float *in, float *out, int64_t count, float *scratch, int64_t single,
                        int64_t num_threads, int64_t variant)
{
    const Run run = run_for(variant, single);
    if (num_threads < 2) { /* a parallel region of one thread costs as much as a small layer */
        share(chain, in, out, count, scratch, single, run, 0, 1);
        return 0;
    }
#pragma omp parallel num_threads(num_threads)
    share(chain, in, out, count, scratch, single, run, omp_get_thread_num(), omp_get_num_threads());
    return 0;
}

/* Like `sg_chain`, for callers without scratch memory: uses up to `num_threads` threads if there is work
 * for them. Returns nonzero if memory runs out. */
KERNEL int64_t sg_chain_direct(const Call *call, const float *in, float *out, int64_t count, int64_t num_threads)
{
    const int64_t worth = 1 + count * call->work / call->worth_a_thread;
    const int64_t threads = worth < num_threads ? worth : num_threads;
    float *memory = malloc((size_t)sg_chain_scratch(call->chain, call->single, threads) * sizeof(float) + LINE);
    if (!memory)
        return 1;
    float *scratch = (float *)(void *)((char *)memory + (LINE - (uintptr_t)memory % LINE));
    sg_chain(call->chain, in, out, count, scratch, call->single, threads, call->variant);
    free(memory);
    return 0;
}
