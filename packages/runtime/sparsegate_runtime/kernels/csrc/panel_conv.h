/* A sparse convolution of sixteen images at a time, for one kind of processor: a part of variant.h. */

/* Rows r0 .. r1 of one block of channels, on a patch of `lines` by `width` outputs: sums go to out + r *
 * out_step and start at the bias in the first block. Earlier sums are added at the end, so that no
 * multiplication waits for them. */
INLINE void NAME(patch)(const int lines, const int width, const Layer *layer, int64_t block, int64_t r0, int64_t r1,
                        const float *x, float *out, int64_t out_step)
{
    const int32_t *start = layer->panel.start + block * (layer->rows + 1), *offset = layer->panel.offset;
    const float *value = layer->panel.value;
    const int64_t line = layer->width * LANES, out_line = layer->conv_width * LANES;
    for (int64_t r = r0; r < r1; r++, out += out_step) {
        Vector sum[MAX_TILE];
        UNROLL for (int i = 0; i < lines * width; i++) sum[i] = NAME(all)(block ? 0 : layer->bias[r]);
        for (int32_t k = start[r]; k < start[r + 1]; k++) {
            const float *from = (const float *)(const void *)NAME(at)(x, offset[k]);
            const Vector weight = NAME(all)(value[k]);
            UNROLL for (int l = 0; l < lines; l++)
            {
                UNROLL for (int i = 0; i < width; i++) sum[l * width + i] += weight * *NAME(at)(from + l * line, 64 * i);
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            Vector *to = (Vector *)(void *)(out + l * out_line);
            UNROLL for (int i = 0; i < width; i++) to[i] = block ? to[i] + sum[l * width + i] : sum[l * width + i];
        }
    }
}

#define PATCH(L, W)                                                                                                \
    case 32 * L + W:                                                                                               \
        NAME(patch)(L * W <= MAX_TILE ? L : 1, L * W <= MAX_TILE ? W : 1, layer, block, r0, r1, x, out, out_step); \
        break;

/* All blocks of channels in order, so that all rows use a block's inputs while they are in the cache. */
TARGET static void NAME(patches)(int64_t lines, int64_t width, const Layer *layer, int64_t r0, int64_t r1, const float *x,
                                 float *out, int64_t out_step)
{
    for (int64_t block = 0; block < layer->panel.num_blocks; block++)
        switch (32 * lines + width) {
            PATCH(1, 1) PATCH(1, 2) PATCH(1, 3) PATCH(1, 4) PATCH(1, 5) PATCH(1, 6) PATCH(1, 7) PATCH(1, 8) PATCH(1, 9)
            PATCH(1, 10) PATCH(1, 11) PATCH(1, 12) PATCH(1, 13) PATCH(1, 14)
            PATCH(2, 1) PATCH(2, 2) PATCH(2, 3) PATCH(2, 4) PATCH(2, 5) PATCH(2, 6) PATCH(2, 7) PATCH(2, 8) PATCH(2, 9)
            PATCH(2, 10) PATCH(2, 11) PATCH(2, 12) PATCH(2, 13) PATCH(2, 14)
            PATCH(4, 1) PATCH(4, 2) PATCH(4, 3) PATCH(4, 4) PATCH(4, 5) PATCH(4, 6) PATCH(4, 7)
        }
}

/* The size of a piece if `vectors` are split into nearly equal pieces of at most `most`. */
INLINE int64_t NAME(piece_of)(int64_t vectors, int64_t most)
{
    int64_t num_pieces = (vectors + most - 1) / most;
    return (vectors + num_pieces - 1) / num_pieces;
}

/* Writes one line of a convolution's output to the next layer's input, after pool and ReLU. */
INLINE void NAME(panel_pool)(const int64_t pool, const Layer *layer, const Layer *next, const float *sums, int64_t r0,
                             int64_t r1, int64_t y, float *out)
{
    const int64_t line = layer->conv_width * LANES, step = layer->pool_stride, first = y * step % layer->slots;
    const int64_t jump = next && !next->is_linear ? next->stride_x : 1;
    const Vector floor = NAME(all)(NAME(least_of)(layer));
    for (int64_t r = r0; r < r1; r++) {
        const float *mine = sums + (r - r0) * layer->slots * line;
        for (int64_t phase = 0; phase < jump && phase < layer->out_width; phase++) {
            float *to = out + LANES * NAME(place)(next, layer->out_height, layer->out_width, r, y, phase);
            for (int64_t x = phase; x < layer->out_width; x += jump, to += LANES) {
                Vector most = floor;
                for (int64_t py = 0, slot = first; py < pool; py++, slot = slot + 1 < layer->slots ? slot + 1 : 0)
                    for (int64_t px = 0; px < pool; px++)
                        most = LARGER(most, *NAME(at)(mine + slot * line, 64 * (x * step + px)));
                *(Vector *)(void *)to = most;
            }
        }
    }
}

/* The number of lines summed together: those of the patch, unless a pool needs lines that they would
 * overwrite. */
INLINE int64_t NAME(lines_at)(const Layer *layer, int64_t y, int64_t most)
{
    const int64_t left = layer->conv_height - y;
    if (layer->pool > 1 && (layer->pool != 2 || layer->pool_stride != 2))
        return 1;
    while (most > left || most > layer->slots)
        most /= 2;
    return most;
}

TARGET static void NAME(panel_conv)(const Layer *layer, const Layer *next, int64_t r0, int64_t r1, const float *in,
                                    float *sums, float *out)
{
    const int64_t slots = layer->slots, line = layer->conv_width * LANES, pool = layer->pool;
    const int64_t most = layer->patch_lines * layer->patch_width <= MAX_TILE ? layer->patch_lines : 1;
    const int64_t width = NAME(piece_of)(layer->conv_width, layer->patch_width < MAX_TILE ? layer->patch_width : MAX_TILE);
    for (int64_t y = 0, lines; y < layer->conv_height; y += lines) {
        lines = NAME(lines_at)(layer, y, most);
        for (int64_t x = 0; x < layer->conv_width; x += width) {
            int64_t here = layer->conv_width - x < width ? layer->conv_width - x : width;
            NAME(patches)(lines, here, layer, r0, r1, in + (y * layer->width + x) * LANES,
                          sums + y % slots * line + x * LANES, slots * line);
        }
        for (int64_t last = y; last < y + lines; last++) {
            int64_t top = last - pool + 1;
            if (top < 0 || top % layer->pool_stride || top / layer->pool_stride >= layer->out_height)
                continue;
            switch (pool) {
            case 1: NAME(panel_pool)(1, layer, next, sums, r0, r1, top / layer->pool_stride, out); break;
            case 2: NAME(panel_pool)(2, layer, next, sums, r0, r1, top / layer->pool_stride, out); break;
            case 3: NAME(panel_pool)(3, layer, next, sums, r0, r1, top / layer->pool_stride, out); break;
            default: NAME(panel_pool)(pool, layer, next, sums, r0, r1, top / layer->pool_stride, out);
            }
        }
    }
}
