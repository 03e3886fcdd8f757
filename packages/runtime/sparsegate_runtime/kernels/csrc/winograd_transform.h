/* The transformations of Winograd's method, for one kind of processor: a part of winograd_variant.h. */

#define MAX_SIDE 8 /* pixels of a tile in a line: six or eight */

/* Transforms a line of inputs: the points are 0, 1, -1, 2, -2 and infinity, and 1/2 and -1/2 for tiles of
 * eight. */
INLINE void NAME(forth)(const int side, const Vector *d, Vector *to, int step)
{
    if (side == 6) {
        const Vector even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1], far_even = d[4] - d[2], far_odd = 2 * (d[3] - d[1]);
        to[0] = 4 * d[0] - 5 * d[2] + d[4];
        to[step] = even + odd;
        to[2 * step] = even - odd;
        to[3 * step] = far_even + far_odd;
        to[4 * step] = far_even - far_odd;
        to[5 * step] = 4 * d[1] - 5 * d[3] + d[5];
        return;
    }
    const Vector even = d[6] + d[2] - 4.25f * d[4], odd = d[5] + d[1] - 4.25f * d[3];
    const Vector far_even = d[6] - 1.25f * d[4] + 0.25f * d[2], far_odd = 2 * d[5] - 2.5f * d[3] + 0.5f * d[1];
    const Vector near_even = d[6] - 5 * d[4] + 4 * d[2], near_odd = 0.5f * d[5] - 2.5f * d[3] + 2 * d[1];
    to[0] = d[6] - d[0] + 5.25f * (d[2] - d[4]);
    to[step] = even + odd;
    to[2 * step] = even - odd;
    to[3 * step] = far_even + far_odd;
    to[4 * step] = far_even - far_odd;
    to[5 * step] = near_even + near_odd;
    to[6 * step] = near_even - near_odd;
    to[7 * step] = d[7] - d[1] + 5.25f * (d[3] - d[5]);
}

/* Transforms a line of sums to two, four or six outputs. */
INLINE void NAME(back)(const int side, const int outputs, const Vector *m, Vector *to, int step)
{
    const Vector sum = m[1] + m[2], difference = m[1] - m[2], far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    const Vector nothing = {0}, near_sum = side == 8 ? m[5] + m[6] : nothing;
    const Vector near_difference = side == 8 ? m[5] - m[6] : nothing;
    /* the last point, infinity, contributes to the last output only */
    const Vector eye[2] = {nothing, m[side - 1]};
    to[0] = m[0] + sum + far_sum + near_sum;
    to[step] = difference + 2 * far_difference + 0.5f * near_difference + eye[outputs == 2];
    if (outputs == 2)
        return;
    to[2 * step] = sum + 4 * far_sum + 0.25f * near_sum;
    to[3 * step] = difference + 8 * far_difference + 0.125f * near_difference + eye[outputs == 4];
    if (outputs == 4)
        return;
    to[4 * step] = sum + 16 * far_sum + 0.0625f * near_sum;
    to[5 * step] = difference + 32 * far_difference + 0.03125f * near_difference + eye[1];
}

/* Transforms the inputs of a tile, from channel c on, in both directions. */
INLINE void NAME(tile_forth)(const int side, const float *const *at, int64_t c, float *to, int64_t point_step)
{
    Vector half[MAX_SIDE * MAX_SIDE], line[MAX_SIDE];
    for (int x = 0; x < side; x++) {
        UNROLL for (int y = 0; y < side; y++) line[y] = *NAME(at)(at[y * side + x] + c, 0);
        NAME(forth)(side, line, half + x, side);
    }
    for (int y = 0; y < side; y++) {
        NAME(forth)(side, half + y * side, line, 1);
        UNROLL for (int x = 0; x < side; x++) * (Vector *)(void *)(to + (y * side + x) * point_step) = line[x];
    }
}

/* Transforms the sums of a tile to outputs x outputs. */
INLINE void NAME(tile_back)(const int side, const int outputs, const float *from, int64_t point_step, Vector *y)
{
    Vector half[MAX_SIDE * MAX_SIDE], line[MAX_SIDE];
    for (int x = 0; x < side; x++) {
        UNROLL for (int p = 0; p < side; p++) line[p] = *NAME(at)(from + (p * side + x) * point_step, 0);
        NAME(back)(side, outputs, line, half + x, side);
    }
    for (int l = 0; l < outputs; l++)
        NAME(back)(side, outputs, half + l * side, y + l * outputs, 1);
}
