/* A dense convolution by Winograd's method. Python fills in the structure (runtime/winograd.py), C only
 * reads it.
 *
 * A tile of inputs gives out_tile by out_tile outputs with tile^2 products per pair of channels instead of
 * (out_tile * taps)^2: for 3 x 3 taps, 4 x 4 outputs need a quarter of the multiplications, 6 x 6 a fifth. */
#ifndef SPARSEGATE_WINOGRAD_H
#define SPARSEGATE_WINOGRAD_H

#include <stdint.h>

typedef struct {
    int64_t channels, rows; /* of input and output: multiples of sixteen */
    int64_t height, width;  /* of the input */
    int64_t pad_y, pad_x;
    int64_t conv_height, conv_width; /* of the output before pooling */
    int64_t tile;                    /* 6 or 8 inputs in each direction */
    int64_t out_tile;                /* tile + 1 - taps outputs, for three taps or five */
    int64_t relu, pool;              /* size of the max pool: 1 or 2 */
    /* tiles at a time: their transformed inputs and sums fit into the second cache */
    int64_t block;
    /* [tile^2][strips of two vectors of rows][channels][floats of the strip] */
    const float *weight;
    const float *bias;               /* [rows] */
} Winograd;

/* The work of one thread: its part of the tiles from `first` on. Tiles are numbered by image, line and
 * column. A tile belongs to one image, so a NaN or infinity in one image does not change the outputs of
 * another. */
typedef struct {
    const Winograd *conv;
    const float *in; /* [images][height][width][channels] */
    float *out;      /* [images][height after pooling][width after pooling][rows] */
    float *zeros;    /* [channels], read for pixels outside the image */
    /* [tile^2][groups of tiles][channels / 16][group][16], and 16 floats after each of the tile^2 */
    float *inputs;
    float *sums;     /* [tile^2][tiles][rows], and 16 floats after each */
    int64_t down, across;  /* tiles of an image */
    int64_t first, count;
    int part, num_parts;
} Tiles;

typedef void (*RunTiles)(const Tiles *tiles);

void sg_tiles_avx512(const Tiles *tiles);
void sg_tiles_avx2(const Tiles *tiles);
void sg_tiles_plain(const Tiles *tiles);

#endif
