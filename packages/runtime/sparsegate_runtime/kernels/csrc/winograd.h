/* A dense convolution by Winograd's method. Python fills the structure (runtime/winograd.py), C only reads it.
 *
 * A tile of inputs gives out_tile by out_tile outputs through tile^2 products per pair of channels instead of
 * (out_tile * taps)^2: of a 3 x 3 convolution, 4 x 4 outputs take a quarter of the multiplications and 6 x 6 a fifth. */
#ifndef SPARSEGATE_WINOGRAD_H
#define SPARSEGATE_WINOGRAD_H

#include <stdint.h>

typedef struct {
    int64_t channels, rows; /* that come in and go out: multiples of sixteen */
    int64_t height, width;  /* of the input */
    int64_t pad_y, pad_x;
    int64_t conv_height, conv_width; /* of the output before pooling */
    int64_t tile;                    /* 6 or 8 inputs in each direction */
    int64_t out_tile;                /* tile + 1 - taps outputs, for three taps or five */
    int64_t relu, pool;              /* the maximum of pool by pool places: 1 or 2 */
    int64_t block;                   /* tiles at a time: what is between the transformations stays in the second cache */
    const float *weight;             /* [tile^2][strips of two vectors of rows][channels][floats of the strip] */
    const float *bias;               /* [rows] */
} Winograd;

/* What one thread does: its part of the tiles from `first` on. A tile's number counts images, lines and columns. No tile spans
 * two images: whatever one image holds, NaN or infinity too, the outputs of the others do not change. */
typedef struct {
    const Winograd *conv;
    const float *in; /* [images][height][width][channels] */
    float *out;      /* [images][height after pooling][width after pooling][rows] */
    float *zeros;    /* [channels], for what is outside of an image */
    float *inputs;   /* [tile^2][groups of tiles][channels / 16][group][16], and 16 floats after each of the tile^2 */
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
