/* What a chain of sparse layers is made of. Python fills these structures (runtime/chain.py), C only reads them. */
#ifndef SPARSEGATE_CHAIN_H
#define SPARSEGATE_CHAIN_H

#include <stdint.h>

#define LANES 16      /* floats in a vector: sixteen images, or sixteen neighbouring positions of one image */
#define MAX_VECTORS 4 /* vectors of images side by side in a chain of linear layers only */
#define SLACK 512     /* floats after every buffer that a tile may read or write beyond its end */

enum { PLAIN, AVX2, AVX512 }; /* the variants, by processor */

/* Rows of a sparse matrix, their weights grouped by blocks of columns: what a block reads stays in the first cache. */
typedef struct {
    int64_t num_blocks;
    const int32_t *start;  /* [num_blocks][rows + 1] into the weights */
    const int32_t *offset; /* [weights] bytes from a tile's first input to the one that the weight takes */
    const float *value;    /* [weights] */
} Rows;

/* Rows in slices of eight, for a matrix times one vector: step k of a slice has the k-th weight of each of its rows. */
typedef struct {
    int64_t num_slices;
    const int32_t *start;   /* [num_slices + 1], in steps */
    const int32_t *row;     /* [num_slices][8] where the sums go; rows beyond the last are -1 */
    const uint16_t *column; /* [steps][8] */
    const float *value;     /* [steps][8], zero where a row has ended */
} Slices;

/* One linear or convolutional layer with what follows it: a maximum over a window, a rectifier. Its input is kept padded
 * and, for strides above one, split into the stride's phases, so that a convolution steps by one everywhere. */
typedef struct {
    int64_t is_linear, relu;
    int64_t pad_y, pad_x, stride_y, stride_x;
    int64_t height, width;           /* of one phase of the padded input */
    int64_t input_size;              /* floats of the whole padded input of one image */
    int64_t rows;                    /* output channels or features */
    int64_t conv_height, conv_width; /* of the output before pooling */
    int64_t pool, pool_stride;       /* 1 and 1 where there is none */
    int64_t out_height, out_width;
    int64_t reach_y, reach_x;         /* from the first to the last tap */
    int64_t patch_lines, patch_width; /* places whose sums a panel's convolution holds in registers, where they fit */
    int64_t slots;                    /* lines of sums that it keeps: those of a pool, or of a patch */
    const int32_t *inside; /* of one image whose sums go straight to the next layer: all bits where a vector's lane is a
                              place of the output, none in the padding; [vectors][16], or [8] if at most eight wide */
    const float *bias;     /* [rows] */
    const int64_t *work;   /* [rows + 1] weights before a row: threads share the rows by it */
    Rows panel;            /* for sixteen images at a time */
    Rows single;           /* for one image: convolutions */
    Slices slices;         /* for one image: linear layers of at most 65536 columns */
} Layer;

typedef struct {
    const Layer *layers; /* [num_layers] */
    int64_t num_layers;
    int64_t channels, in_height, in_width; /* of the images; a vector has one by one pixels */
    int64_t out_size;                      /* floats that come out for one image */
    int64_t buffer_size;                   /* floats of the largest padded input of one image */
    int64_t panel_rows, single_rows;       /* floats for sums before pooling, of sixteen images and of one */
    int64_t vectors;                       /* of images side by side: more than one in chains of linear layers only */
} Chain;

/* A chain, and how it is to be called. */
typedef struct {
    const Chain *chain;
    int64_t single, variant;
    int64_t work, worth_a_thread; /* steps for one image, and for which it pays to wake another thread */
} Call;

/* What one thread does in a chain: the images from `first` on, the part of every layer's rows that is its own. */
typedef struct {
    const Chain *chain;
    const float *in; /* [images][channels][in_height][in_width] */
    float *out;      /* [images][out_size] */
    float *buffer[2];
    float *sums;
    int64_t first, count; /* images of this panel; count is at most 16 * vectors, and one in the single form */
    int64_t vectors;
    int part, num_parts;
} Task;

typedef void (*Run)(const Task *task);

void sg_panel_avx512(const Task *task);
void sg_panel_avx2(const Task *task);
void sg_panel_plain(const Task *task);
void sg_single_avx512(const Task *task);
void sg_single_avx2(const Task *task);
void sg_single_plain(const Task *task);

#endif
