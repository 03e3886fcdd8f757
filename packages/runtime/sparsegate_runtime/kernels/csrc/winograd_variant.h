/* Winograd's convolution for one kind of processor: a part of variant.h. */
#include "winograd.h"
#include "winograd_transform.h"

#define GROUP (MAX_TILE / 2) /* tiles whose sums for two vectors of rows fit into the registers */

/* Offsets of count x count pixels from (top, left) on in image number `image` of height x width x depth
 * floats; -1 for pixels outside the image. */
INLINE void NAME(places)(int64_t image, int64_t count, int64_t top, int64_t left, int64_t height, int64_t width,
                         int64_t depth, int64_t *place)
{
    for (int64_t y = 0; y < count; y++)
        for (int64_t x = 0; x < count; x++) {
            const int64_t line = top + y, column = left + x;
            const int is_inside = line >= 0 && line < height && column >= 0 && column < width;
            place[y * count + x] = is_inside ? ((image * height + line) * width + column) * depth : -1;
        }
}

/* The size of a group: the tiles are split into nearly equal groups. */
INLINE int64_t NAME(group_for)(int64_t count)
{
    int64_t num_groups = (count + GROUP - 1) / GROUP;
    return (count + num_groups - 1) / num_groups;
}

/* Transforms the inputs of this thread's tiles; pixels outside the image are zero. */
INLINE void NAME(tiles_in)(const int side, const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t group = NAME(group_for)(tiles->count), num_groups = (tiles->count + group - 1) / group;
    const int64_t point_step = num_groups * group * conv->channels + LANES;
    for (int64_t i = tiles->part; i < tiles->count; i += tiles->num_parts) {
        const int64_t tile = tiles->first + i, image = tile / (tiles->down * tiles->across);
        const int64_t top = tile / tiles->across % tiles->down * conv->out_tile - conv->pad_y;
        const int64_t left = tile % tiles->across * conv->out_tile - conv->pad_x;
        int64_t place[MAX_SIDE * MAX_SIDE];
        const float *at[MAX_SIDE * MAX_SIDE];
        NAME(places)(image, side, top, left, conv->height, conv->width, conv->channels, place);
        for (int p = 0; p < side * side; p++)
            at[p] = place[p] < 0 ? tiles->zeros : tiles->in + place[p];
        float *to = tiles->inputs + (i / group * group * conv->channels + i % group * LANES);
        for (int64_t c = 0; c < conv->channels; c += LANES, to += group * LANES)
            NAME(tile_forth)(side, at, c, to, point_step);
    }
}

/* `count` tiles times a strip of rows, one or two vectors wide: the sums stay in registers for all
 * channels. */
INLINE void NAME(strip)(const int count, const int wide, int64_t channels, int64_t group, const float *in,
                        const float *weight, float *sums, int64_t rows)
{
    Vector sum[2 * GROUP];
    UNROLL for (int i = 0; i < count * wide; i++) sum[i] = NAME(all)(0);
    for (int64_t c = 0; c < channels; c += LANES, in += group * LANES)
        for (int lane = 0; lane < LANES; lane++, weight += wide * LANES) {
            const Vector left = *NAME(at)(weight, 0), right = *NAME(at)(weight, wide == 2 ? 64 : 0);
            UNROLL for (int i = 0; i < count; i++)
            {
                const Vector one = NAME(all)(in[i * LANES + lane]);
                sum[i * wide] += one * left;
                if (wide == 2)
                    sum[i * wide + 1] += one * right;
            }
        }
    UNROLL for (int i = 0; i < count; i++)
    {
        UNROLL for (int w = 0; w < wide; w++) * (Vector *)(void *)(sums + i * rows + w * LANES) = sum[i * wide + w];
    }
}

#define STRIP(T)                                                                                             \
    case T:                                                                                                  \
        if (wide == 2)                                                                                       \
            NAME(strip)(T <= GROUP ? T : 1, 2, channels, group, in, weight, sums, rows);                     \
        else                                                                                                 \
            NAME(strip)(T <= GROUP ? T : 1, 1, channels, group, in, weight, sums, rows);                     \
        break;

TARGET static void NAME(strips)(int64_t count, int64_t wide, int64_t channels, int64_t group, const float *in,
                                const float *weight, float *sums, int64_t rows)
{
    switch (count) {
        STRIP(1) STRIP(2) STRIP(3) STRIP(4) STRIP(5) STRIP(6) STRIP(7) STRIP(8) STRIP(9) STRIP(10) STRIP(11) STRIP(12)
        STRIP(13) STRIP(14)
    }
}

/* The products: at each point, a matrix [rows][channels] times a matrix [channels][tiles]. */
TARGET static void NAME(tiles_multiply)(const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t channels = conv->channels, rows = conv->rows, count = tiles->count;
    const int64_t group = NAME(group_for)(count), num_groups = (count + group - 1) / group;
    const int64_t num_strips = (rows + 2 * LANES - 1) / (2 * LANES), jobs = conv->tile * conv->tile * num_strips;
    for (int64_t job = jobs * tiles->part / tiles->num_parts; job < jobs * (tiles->part + 1) / tiles->num_parts; job++) {
        int64_t point = job / num_strips, row = job % num_strips * 2 * LANES, wide = rows - row > LANES ? 2 : 1;
        const float *weight = conv->weight + (point * rows + row) * channels;
        const float *in = tiles->inputs + point * (num_groups * group * channels + LANES);
        float *sums = tiles->sums + point * (count * rows + LANES) + row;
        for (int64_t i = 0; i < count; i += group, in += group * channels, sums += group * rows)
            NAME(strips)(count - i < group ? count - i : group, wide, channels, group, in, weight, sums, rows);
    }
}

/* Writes the outputs of a tile for sixteen rows, after bias, pool and ReLU; skips those outside the image. */
INLINE void NAME(tile_out)(const int out_tile, const Winograd *conv, const Vector *y, const int64_t *place, int64_t row,
                           float *out)
{
    const int64_t pool = conv->pool, side = out_tile / pool;
    const Vector bias = *NAME(at)(conv->bias + row, 0), floor = NAME(all)(conv->relu ? 0 : -INFINITY);
    for (int64_t i = 0; i < side * side; i++) {
        const Vector *from = y + pool * (i / side * out_tile + i % side);
        Vector most = from[0];
        if (place[i] < 0)
            continue;
        if (pool == 2)
            most = LARGER(LARGER(from[0], from[1]), LARGER(from[out_tile], from[out_tile + 1]));
        *(Vector *)(void *)(out + place[i] + row) = LARGER(floor, most + bias);
    }
}

INLINE void NAME(tiles_back)(const int side, const int out_tile, const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t point_step = tiles->count * conv->rows + LANES, pool = conv->pool, outputs = out_tile / pool;
    for (int64_t i = tiles->part; i < tiles->count; i += tiles->num_parts) {
        const int64_t tile = tiles->first + i, image = tile / (tiles->down * tiles->across);
        const int64_t top = tile / tiles->across % tiles->down * outputs, left = tile % tiles->across * outputs;
        int64_t place[MAX_SIDE * MAX_SIDE];
        NAME(places)(image, outputs, top, left, conv->conv_height / pool, conv->conv_width / pool, conv->rows, place);
        for (int64_t row = 0; row < conv->rows; row += LANES) {
            Vector y[MAX_SIDE * MAX_SIDE];
            NAME(tile_back)(side, out_tile, tiles->sums + i * conv->rows + row, point_step, y);
            NAME(tile_out)(out_tile, conv, y, place, row, tiles->out);
        }
    }
}

#define TILES(SIDE, OUT_TILE)                                                                                \
    case 8 * SIDE + OUT_TILE:                                                                                \
        NAME(tiles_in)(SIDE, tiles);                                                                         \
        BARRIER(tiles)                                                                                       \
        NAME(tiles_multiply)(tiles);                                                                         \
        BARRIER(tiles)                                                                                       \
        NAME(tiles_back)(SIDE, OUT_TILE, tiles);                                                             \
        break;

TARGET void NAME(sg_tiles)(const Tiles *tiles)
{
    BARRIER(tiles)
    switch (8 * tiles->conv->tile + tiles->conv->out_tile) {
        TILES(6, 4) TILES(6, 2) TILES(8, 6) TILES(8, 4)
    }
}
