/* Distributes the tiles of a dense convolution by Winograd's method among threads. */
#include "winograd.h"
#include "chain.h"
#include "kernels.h"

#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

static RunTiles run_for(int64_t variant)
{
#if defined(__x86_64__)
    if (variant == AVX512)
        return sg_tiles_avx512;
    if (variant == AVX2)
        return sg_tiles_avx2;
#endif
    (void)variant;
    return sg_tiles_plain;
}

static int64_t inputs_of(const Winograd *conv) /* groups are padded, by less than one tile each */
{
    return conv->tile * conv->tile * ((conv->block + LANES) * conv->channels + LANES);
}

/* Size of the scratch memory of `sg_winograd`, in floats. */
KERNEL int64_t sg_winograd_scratch(const Winograd *conv, int64_t num_threads)
{
    const int64_t sums = conv->tile * conv->tile * (conv->block * conv->rows + LANES);
    return num_threads * (conv->channels + inputs_of(conv) + sums);
}

/* Runs `count` images through the convolution. With few blocks of tiles the threads share each block;
 * otherwise each thread takes whole blocks. */
KERNEL int64_t sg_winograd(const Winograd *conv, const float *in, float *out, int64_t count, float *scratch,
                           int64_t num_threads, int64_t variant)
{
    const RunTiles run = run_for(variant);
    const int64_t down = (conv->conv_height + conv->out_tile - 1) / conv->out_tile;
    const int64_t across = (conv->conv_width + conv->out_tile - 1) / conv->out_tile;
    const int64_t all_tiles = count * down * across, num_blocks = (all_tiles + conv->block - 1) / conv->block;
    /* of nearly equal size */
    const int64_t block = num_blocks ? (all_tiles + num_blocks - 1) / num_blocks : 0;
    const int together = num_threads > 1 && num_blocks < 4 * num_threads;
#pragma omp parallel num_threads(num_threads) if (num_threads > 1)
    {
        int me = omp_get_thread_num(), all = omp_get_num_threads();
        float *mine = scratch + (together ? 0 : me) * sg_winograd_scratch(conv, 1);
        float *inputs = mine + conv->channels;
        Tiles tiles = {conv, in, out, mine, inputs, inputs + inputs_of(conv), down, across, 0, 0, 0, 1};
        if (!together || me == 0)
            memset(mine, 0, (size_t)conv->channels * sizeof(float));
        tiles.part = together ? me : 0;
        tiles.num_parts = together ? all : 1;
        for (int64_t b = together ? 0 : me; b < num_blocks; b += together ? 1 : all) {
            tiles.first = b * block;
            tiles.count = all_tiles - tiles.first < block ? all_tiles - tiles.first : block;
            run(&tiles);
        }
    }
    return 0;
}
