/* The structures of a chain of sparse layers. Python fills them in (runtime/chain.py), C only reads them. */
#ifndef SPARSEGATE_CHAIN_H
#define SPARSEGATE_CHAIN_H

#include <stdint.h>

#define LANES 16      /* floats in a vector: sixteen images, or sixteen neighbouring positions of one image */
#define MAX_VECTORS 4 /* vectors of images in a panel, if all layers are linear */
#define SLACK 512     /* floats that a tile may read or write beyond the end of a buffer */

enum { PLAIN, AVX2, AVX512, NEON, WASM }; /* the variants, by processor */

/* A pointer that takes eight bytes on every processor, so that a structure has one layout everywhere. An image
 * (image.h) has the number of a byte in its place. */
#define WIDE_POINTER(type, name) \
    union {                      \
        type *name;              \
        uint64_t name##_at;      \
    }

/* Rows of a sparse matrix, with the weights grouped by blocks of columns, whose inputs fit into the first
 * cache. */
typedef struct {
    int64_t num_blocks;
    WIDE_POINTER(const int32_t, start);  /* [num_blocks][rows + 1] into the weights */
    WIDE_POINTER(const int32_t, offset); /* [weights] bytes from a tile's first input to the input of the weight */
    WIDE_POINTER(const float, value);    /* [weights] */
} Rows;

/* Rows in slices of eight, for a matrix times one vector: step k of a slice has the k-th weight of its
 * eight rows. */
typedef struct {
    int64_t num_slices;
    WIDE_POINTER(const int32_t, start);   /* [num_slices + 1], in steps */
    WIDE_POINTER(const int32_t, row);     /* [num_slices][8] index of the sum; -1 for padding */
    WIDE_POINTER(const uint16_t, column); /* [steps][8] */
    WIDE_POINTER(const float, value);     /* [steps][8], zero after the end of a row */
} Slices;

/* One linear or convolutional layer, and the max pool and ReLU after it. Its input is padded and, for
 * strides above one, split into the phases of the stride, so that every convolution has stride one. */
typedef struct {
    int64_t is_linear, relu;
    int64_t pad_y, pad_x, stride_y, stride_x;
    int64_t height, width;           /* of one phase of the padded input */
    int64_t input_size;              /* floats of the whole padded input of one image */
    int64_t rows;                    /* output channels or features */
    int64_t conv_height, conv_width; /* of the output before pooling */
    int64_t pool, pool_stride;       /* 1 and 1 without a pool */
    int64_t out_height, out_width;
    int64_t reach_y, reach_x;         /* distance from the first to the last tap */
    /* outputs whose sums a panel's convolution holds in registers, if they fit */
    int64_t patch_lines, patch_width;
    int64_t slots;                    /* lines of sums in memory: the lines of a pool, or of a patch */
    /* NULL, or, if one image's sums are written to the next layer directly, a mask: all bits set for lanes of
     * the output, zero for padding; [vectors][16], or [8] if at most eight wide */
    const int32_t *inside;
    const float *bias;     /* [rows] */
    const int64_t *work;   /* [rows + 1] number of weights before a row, to distribute the rows */
    Rows panel;            /* for sixteen images at a time */
    Rows single;           /* for one image: convolutions */
    Slices slices;         /* for one image: linear layers of at most 65536 columns */
} Layer;

typedef struct {
    const Layer *layers; /* [num_layers] */
    int64_t num_layers;
    int64_t channels, in_height, in_width; /* of the images; vectors of features have height and width 1 */
    int64_t out_size;                      /* floats of the output of one image */
    int64_t buffer_size;                   /* floats of the largest padded input of one image */
    int64_t panel_rows, single_rows;       /* floats for sums before pooling, of sixteen images and of one */
    /* of images in a panel; more than one only if all layers are linear */
    int64_t vectors;
} Chain;

/* A chain, and the settings of a call. */
typedef struct {
    const Chain *chain;
    int64_t single, variant;
    int64_t work, worth_a_thread; /* steps for one image, and steps from which one more thread pays off */
} Call;

/* The work of one thread: the images from `first` on, and its part of the rows of each layer. */
typedef struct {
    const Chain *chain;
    const float *in; /* [images][channels][in_height][in_width] */
    float *out;      /* [images][out_size] */
    float *buffer[2];
    float *sums;
    int64_t first, count; /* images of this panel; count is at most 16 * vectors, or one without panels */
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
