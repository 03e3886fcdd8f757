/* Winograd's convolution for one kind of processor: a part of variant.h. */
#include "winograd.h"

#define GROUP (MAX_TILE / 2) /* tiles whose sums for two vectors of rows fit into the registers */

/* Where place (y, x) of a mosaic is in images of height by width by depth floats, or -1 between images. */
INLINE int64_t NAME(pixel)(const Tiles *tiles, int64_t mosaic, int64_t y, int64_t x, int64_t height, int64_t width,
                           int64_t depth)
{
    const Winograd *conv = tiles->conv;
    if (y < 0 || x < 0)
        return -1;
    int64_t down = tiles->side > 1 ? y / conv->pitch_y : 0, across = tiles->side > 1 ? x / conv->pitch_x : 0;
    int64_t image = (mosaic * tiles->side + down) * tiles->side + across;
    y -= down * conv->pitch_y;
    x -= across * conv->pitch_x;
    if (y >= height || x >= width || down >= tiles->side || across >= tiles->side || image >= tiles->images)
        return -1;
    return ((image * height + y) * width + x) * depth;
}

/* Tiles that are multiplied together: as equal as can be. */
INLINE int64_t NAME(group_for)(int64_t count)
{
    int64_t num_groups = (count + GROUP - 1) / GROUP;
    return (count + num_groups - 1) / num_groups;
}

/* The transformation of six inputs, for the points 0, 1, -1, 2, -2 and infinity. */
INLINE void NAME(forth)(const Vector *d, int step, Vector *to, int to_step)
{
    const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const Vector even = d4 - 4 * d2, odd = d3 - 4 * d1, far_even = d4 - d2, far_odd = 2 * (d3 - d1);
    to[0] = 4 * d0 - 5 * d2 + d4;
    to[to_step] = even + odd;
    to[2 * to_step] = even - odd;
    to[3 * to_step] = far_even + far_odd;
    to[4 * to_step] = far_even - far_odd;
    to[5 * to_step] = 4 * d1 - 5 * d3 + d5;
}

/* And of six sums, to two or four outputs. */
INLINE void NAME(back)(const int out_tile, const Vector *m, int step, Vector *to, int to_step)
{
    const Vector sum = m[step] + m[2 * step], difference = m[step] - m[2 * step], last = m[5 * step];
    const Vector far_sum = m[3 * step] + m[4 * step], far_difference = m[3 * step] - m[4 * step];
    to[0] = m[0] + sum + far_sum;
    if (out_tile == 2) {
        to[to_step] = difference + 2 * far_difference + last;
        return;
    }
    to[to_step] = difference + 2 * far_difference;
    to[2 * to_step] = sum + 4 * far_sum;
    to[3 * to_step] = difference + 8 * far_difference + last;
}

/* The inputs of this thread's tiles, transformed; what is outside of the image is zero. */
TARGET static void NAME(tiles_in)(const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t group = NAME(group_for)(tiles->count), num_groups = (tiles->count + group - 1) / group;
    const int64_t point_step = num_groups * group * conv->channels + LANES;
    for (int64_t i = tiles->part; i < tiles->count; i += tiles->num_parts) {
        const int64_t tile = tiles->first + i, mosaic = tile / (tiles->down * tiles->across);
        const int64_t top = tile / tiles->across % tiles->down * conv->out_tile - conv->pad_y;
        const int64_t left = tile % tiles->across * conv->out_tile - conv->pad_x;
        int64_t place[POINTS];
        for (int p = 0; p < POINTS; p++)
            place[p] = NAME(pixel)(tiles, mosaic, top + p / 6, left + p % 6, conv->height, conv->width, conv->channels);
        float *to = tiles->inputs + (i / group * group * conv->channels + i % group * LANES);
        for (int64_t c = 0; c < conv->channels; c += LANES, to += group * LANES) {
            Vector d[POINTS], half[POINTS];
            for (int p = 0; p < POINTS; p++)
                d[p] = place[p] < 0 ? NAME(all)(0) : *NAME(at)(tiles->in + place[p] + c, 0);
            UNROLL for (int x = 0; x < 6; x++) NAME(forth)(d + x, 6, half + x, 6);
            UNROLL for (int y = 0; y < 6; y++) NAME(forth)(half + 6 * y, 1, d + 6 * y, 1);
            for (int p = 0; p < POINTS; p++)
                *(Vector *)(void *)(to + p * point_step) = d[p];
        }
    }
}

/* `count` tiles times a strip of rows, one or two vectors wide: the sums stay in registers over all channels. */
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

#define STRIP(T)                                                                                                       \
    case T:                                                                                                            \
        if (wide == 2)                                                                                                 \
            NAME(strip)(T <= GROUP ? T : 1, 2, channels, group, in, weight, sums, rows);                               \
        else                                                                                                           \
            NAME(strip)(T <= GROUP ? T : 1, 1, channels, group, in, weight, sums, rows);                               \
        break;

TARGET static void NAME(strips)(int64_t count, int64_t wide, int64_t channels, int64_t group, const float *in,
                                const float *weight, float *sums, int64_t rows)
{
    switch (count) {
        STRIP(1) STRIP(2) STRIP(3) STRIP(4) STRIP(5) STRIP(6) STRIP(7) STRIP(8) STRIP(9) STRIP(10) STRIP(11) STRIP(12)
        STRIP(13) STRIP(14)
    }
}

/* The products: a matrix of rows by channels times one of channels by tiles, at each of the 36 points. */
TARGET static void NAME(tiles_multiply)(const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t channels = conv->channels, rows = conv->rows, count = tiles->count;
    const int64_t group = NAME(group_for)(count), num_groups = (count + group - 1) / group;
    const int64_t num_strips = (rows + 2 * LANES - 1) / (2 * LANES), jobs = POINTS * num_strips;
    for (int64_t job = jobs * tiles->part / tiles->num_parts; job < jobs * (tiles->part + 1) / tiles->num_parts; job++) {
        int64_t point = job / num_strips, row = job % num_strips * 2 * LANES, wide = rows - row > LANES ? 2 : 1;
        const float *weight = conv->weight + (point * rows + row) * channels;
        const float *in = tiles->inputs + point * (num_groups * group * channels + LANES);
        float *sums = tiles->sums + point * (count * rows + LANES) + row;
        for (int64_t i = 0; i < count; i += group, in += group * channels, sums += group * rows)
            NAME(strips)(count - i < group ? count - i : group, wide, channels, group, in, weight, sums, rows);
    }
}

/* The outputs of a tile for sixteen rows: bias, maximum of two by two places, rectifier; only those that exist. */
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

INLINE void NAME(tiles_back)(const int out_tile, const Tiles *tiles)
{
    const Winograd *conv = tiles->conv;
    const int64_t point_step = tiles->count * conv->rows + LANES, pool = conv->pool, side = out_tile / pool;
    for (int64_t i = tiles->part; i < tiles->count; i += tiles->num_parts) {
        const int64_t tile = tiles->first + i, mosaic = tile / (tiles->down * tiles->across);
        const int64_t top = tile / tiles->across % tiles->down * side, left = tile % tiles->across * side;
        int64_t place[16];
        for (int64_t p = 0; p < side * side; p++)
            place[p] = NAME(pixel)(tiles, mosaic, top + p / side, left + p % side, conv->conv_height / pool,
                                   conv->conv_width / pool, conv->rows);
        for (int64_t row = 0; row < conv->rows; row += LANES) {
            const float *from = tiles->sums + i * conv->rows + row;
            Vector m[POINTS], half[POINTS], y[16];
            for (int p = 0; p < POINTS; p++)
                m[p] = *NAME(at)(from + p * point_step, 0);
            UNROLL for (int x = 0; x < 6; x++) NAME(back)(out_tile, m + x, 6, half + x, 6);
            UNROLL for (int l = 0; l < out_tile; l++) NAME(back)(out_tile, half + 6 * l, 1, y + out_tile * l, 1);
            NAME(tile_out)(out_tile, conv, y, place, row, tiles->out);
        }
    }
}

TARGET void NAME(sg_tiles)(const Tiles *tiles)
{
    BARRIER(tiles)
    NAME(tiles_in)(tiles);
    BARRIER(tiles)
    NAME(tiles_multiply)(tiles);
    BARRIER(tiles)
    if (tiles->conv->out_tile == 4)
        NAME(tiles_back)(4, tiles);
    else
        NAME(tiles_back)(2, tiles);
}
