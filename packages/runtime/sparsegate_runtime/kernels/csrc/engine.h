/* The engine: a list of typed operations over planned memory, run step by step.
 *
 * Activations lie in memory as channels of positions: the positions (pixels, tokens, images) of one channel are
 * neighbours, so that sixteen of them fill a vector. Python plans (engine/plan.py): it fills these structures in, C
 * only reads them. A step runs one operation on a range of positions, so that a tile of positions can pass through
 * several operations while it is in the second-level cache.
 *
 * Positions between the lines of an image, before the first and after the last are its border. They hold zeros where
 * a convolution reads them as padding, otherwise anything. `inside` masks have all bits set for positions of the
 * image and none for its border.
 */
#ifndef SPARSEGATE_ENGINE_H
#define SPARSEGATE_ENGINE_H

#include <stdint.h>

#include "chain.h" /* LANES, SLACK, Rows, Slices, variants */

#define MOST_DIMS 6     /* dimensions of a strided operation */
#define MOST_INPUTS 6   /* tensors that a pointwise operation reads */
#define MOST_CODE 24    /* instructions of a pointwise operation */
#define MOST_REGISTERS 10

/* Where a tensor begins: in buffer `buffer` (0 is the arena; others are inputs, outputs and constants of the call),
 * `offset` floats from its start. `stride` is the distance between channels, in floats. */
typedef struct {
    int64_t buffer, offset, stride;
} Place;

#define REPEATS INT64_MIN /* the stride of sixteen floats that repeat, for inputs of pointwise operations */

/* A tensor of any strides, in floats; 0 repeats the same element. */
typedef struct {
    int64_t buffer, offset;
    int64_t stride[MOST_DIMS];
} View;

/* ---- functions of elements ---- */

enum Function { /* unary: r[to] = f(r[a]); binary: r[to] = f(r[a], r[b]) */
    F_COPY, F_RELU, F_RELU6, F_LEAKY_RELU, F_ELU, F_SIGMOID, F_TANH, F_SILU, F_GELU, F_GELU_TANH, F_HARD_SIGMOID,
    F_HARD_SWISH, F_SOFTPLUS, F_MISH, F_EXP, F_LOG, F_ERF, F_SQRT, F_RSQRT, F_RECIPROCAL, F_ABS, F_NEG, F_SQUARE,
    F_SIN, F_COS, F_FLOOR, F_CEIL, F_ROUND, F_SIGN, F_CLAMP /* to [x, y] */, F_AFFINE /* x * r + y */, F_POW /* r to the power x */,
    F_ADD, F_SUB, F_MUL, F_DIV, F_MAX, F_MIN, F_PRELU /* r[a] > 0 ? r[a] : r[a] * r[b] */,
    F_KEEP /* r[b] > 0 ? r[a] : 0 */, F_NUM_FUNCTIONS
};

/* One instruction. Registers 0 .. num_inputs - 1 hold the inputs at first. */
typedef struct {
    int32_t function, to, a, b;
    float x, y; /* constants: slope of LEAKY_RELU, alpha of ELU, bounds of CLAMP, factor and summand of AFFINE, ... */
} Instruction;

/* out = code(inputs), elementwise over shape[0] x ... x shape[dims - 1]. The last dimension is the innermost: out has
 * stride 1 there, every input 1 or 0 or any other; REPEATS for sixteen floats that repeat. The result is register `result`. Positions of the last dimension
 * (steps restrict it to [begin, end)); `inside`, if not NULL, is a mask by index of the last dimension: where it is
 * zero, zero is written. Inputs are read before the output is written, element by element: out may be an input. */
typedef struct {
    int64_t dims, shape[MOST_DIMS];
    int64_t num_inputs, num_code, result;
    View in[MOST_INPUTS], out;
    Instruction code[MOST_CODE];
    WIDE_POINTER(const int32_t, inside);
} Pointwise;

/* ---- products with matrices ---- */

/* What happens to the finished sums of a row of a product: `added` at [row][position] is added if `adds` says so (not
 * for MatrixVector), max(sum, least), min of that and most, zero outside, then `then`, if not NULL: a pointwise operation of one or two dimensions [rows][positions], whose register 0 is the sum (in[0] is ignored);
 * inputs 1 .. are read at [row][position] by their first two strides. Its own `inside` applies last. */
typedef struct {
    float least; /* -infinity for no bound */
    float most;  /* none if it is not above zero; not for MatrixVector */
    WIDE_POINTER(const int32_t, inside);
    WIDE_POINTER(const Pointwise, then);
    int64_t adds;
    Place added;
} Finish;

/* How positions of out lie in the input of a strided operation on images that lie side by side, sixteen to a pixel:
 * line l of out, which has `line` floats, begins at l * in_line floats of in, and its pixels are `pixels` pixels of
 * sixteen floats apart. A step stays within a line. All zero: position p reads around position p of in. */
typedef struct {
    int64_t line, in_line, pixels;
} Apart;

/* out[r][p] = bias[r] + sum of value[k] * in[p + offset[k]]: a linear layer or convolution without its zeros. */
typedef struct {
    int64_t num_rows;
    Rows rows;           /* offsets in bytes from position p of channel 0 */
    WIDE_POINTER(const float, bias);   /* [num_rows] */
    WIDE_POINTER(const int64_t, work); /* [num_rows + 1] weights before a row, to share the rows among threads */
    Place in, out;
    Finish finish;
    int64_t tile;        /* vectors of a tile; at most the processor's most */
    Apart apart;
} Multiply;

/* The same without zeros in the weights: all rows read the same inputs. `weight` is packed: for each group of
 * `group` rows and each input k: `group` weights next to each other, zero beyond the last row. */
typedef struct {
    int64_t num_rows, num_inputs, group;
    WIDE_POINTER(const int32_t, offset); /* [num_inputs] bytes, as in Rows */
    WIDE_POINTER(const float, weight);   /* [ceil(num_rows / group)][num_inputs][group] */
    WIDE_POINTER(const float, bias);
    Place in, out;
    Finish finish;
    int64_t block;         /* inputs whose vectors fit into the first cache together */
} DenseMultiply;

/* A depthwise convolution of stride two: every channel has a square kernel of 3 or 5 taps. Images lie one after the
 * other; the border after each line of out and between its images becomes zero. A step computes the lines that begin
 * in its positions. */
typedef struct {
    int64_t channels, images, height, width, taps; /* of out */
    WIDE_POINTER(const float, weight); /* [channels][taps][taps] */
    WIDE_POINTER(const float, bias);   /* [channels] */
    Place in;                          /* what the first tap of the first pixel reads */
    Place out;
    int64_t in_image, in_line, out_image, out_line; /* distances of images and lines */
    Finish finish;
} Depthwise;

/* A sparse matrix for products with one vector. Rows come in panels of `rows`, a multiple of sixteen, columns in blocks
 * of 128. Within a panel and block, rows are sorted by their weights; sixteen of them are a slice, and each of its steps
 * has a weight of every row. */
typedef struct {
    int64_t num_panels; /* 0 if there are none */
    int64_t rows, num_blocks;
    WIDE_POINTER(const int32_t, start);   /* [panels][blocks][rows / 16] and one more: steps before a slice */
    WIDE_POINTER(const uint16_t, row);    /* [panels][blocks][rows]: within the panel; `rows` for none */
    WIDE_POINTER(const uint8_t, column);  /* [steps][16]: within the block */
    WIDE_POINTER(const float, value);     /* [steps][16] */
} Panels;

#define MOST_PANEL_ROWS 256

/* A matrix times few vectors: out[r][p] for each position p on its own (positions need not be neighbours). */
typedef struct {
    int64_t num_rows, num_inputs;
    Slices slices; /* for a matrix that has neither panels nor is dense */
    Panels panels;
    WIDE_POINTER(const float, dense); /* [num_rows][num_inputs, zeros up to a multiple of sixteen], or NULL */
    WIDE_POINTER(const float, bias);
    Place in, out;
    int64_t in_position, out_position; /* distance between positions, in floats */
    Finish finish;                     /* then applies to [rows][positions] afterwards */
} MatrixVector;

/* Floats of scratch memory that a thread needs: an input of whole blocks, and the sums of a panel. */
static inline int64_t sg_vector_scratch(const MatrixVector *product)
{
    return (product->num_inputs + 127) / 128 * 128 + MOST_PANEL_ROWS + LANES;
}

/* out[i, m, n] = sum over k of a[i, m, k] * b[i, k, n] for i in up to three leading dimensions; out and b have stride 1 in n. */
typedef struct {
    int64_t batch[3], rows, inner, columns;
    View a; /* strides: three of the batch, m, k */
    View b; /* strides: three of the batch, k, n (1) */
    View out; /* strides: three of the batch, m, n (1) */
    float scale;
} MatrixMultiply;

/* Softmax(scale * q k^T + mask) v for every image and head. Tokens are neighbours: their stride is 1.
 * strides: image, head, feature (tokens: 1). Grouped heads: head h of q reads head h / (heads / kv_heads) of k and v.
 * The mask, if its buffer is not -1, has strides image, head, query, key; as `mask_kind` says it is added, or a byte
 * tensor (0: excluded; offset and strides in bytes), or none. With `causal`, query i sees keys up to i + keys - queries. A query that sees no key gives zeros.
 */
enum { MASK_NONE, MASK_ADDED, MASK_BYTES };
typedef struct {
    int64_t images, heads, kv_heads, queries, keys, features, value_features;
    View q, k, v, out;
    View mask;
    int64_t mask_kind, causal;
    float scale;
} Attention;

#define ATTENTION_KEYS 128   /* most keys whose scores are in memory together */
#define ATTENTION_QUERIES 64 /* most queries of a tile */

/* Floats of scratch memory that a thread needs: scaled queries, scores and sums of values, from a whole line on. */
static inline int64_t sg_attention_scratch(const Attention *attention)
{
    return ATTENTION_QUERIES * (attention->features + ATTENTION_KEYS + attention->value_features) + LANES;
}

/* The same for one new token of every image, whose key and value are written to a cache behind those of earlier tokens.
 * `keys` is a buffer [layers][images][kv_heads][features][room], `values` one [layers][images][kv_heads][room][features],
 * of which this is layer `layer`; 64 floats behind the last may be read. `state` is a buffer of two 64-bit numbers: the
 * earlier tokens, fewer than `room`, and `room`. Strides: image, head, feature. Program images hold none of these. */
typedef struct {
    int64_t images, heads, kv_heads, features, value_features, layer;
    View q, k, v, out;
    int64_t keys, values, state;
    float scale;
    int32_t unused;
} CachedAttention;

/* ---- norms, softmax, sums ---- */

/* Over the channels of every position: (x - mean) / sqrt(variance + eps) * weight + bias; an RMS norm takes no mean
 * away. weight and bias may be NULL. out may be in. */
typedef struct {
    int64_t channels, rms;
    float eps;
    int32_t unused;
    WIDE_POINTER(const float, weight);
    WIDE_POINTER(const float, bias); /* [channels] */
    Place in, out;
    WIDE_POINTER(const int32_t, inside);
} ChannelNorm;

/* Group norm: over channels / groups channels and all positions (lines x width) of an image. strides of in and out:
 * image, channel, line (neighbours in a line: 1). */
typedef struct {
    int64_t images, channels, groups, lines, width;
    float eps;
    int32_t unused;
    WIDE_POINTER(const float, weight);
    WIDE_POINTER(const float, bias); /* [channels], or NULL */
    View in, out;
} GroupNorm;

/* Softmax over the last dimension, whose strides may be any; out likewise. */
typedef struct {
    int64_t dims, shape[MOST_DIMS], log;
    View in, out;
} Softmax;

/* out[i] = reduction over j of in[i, j]: `dims` kept dimensions, then `reduced` dimensions, by shape and strides. */
enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN };
typedef struct {
    int64_t kind, dims, reduced, shape[MOST_DIMS];
    View in, out; /* out: strides of the kept dimensions */
    float share;  /* what the sum is multiplied by for a mean: zeros between lines of images may be added up, too */
    int32_t unused;
} Reduce;

/* ---- movement ---- */

/* out = in, any strides; any order of the dimensions. `size` is 4 bytes each. */
typedef struct {
    int64_t dims, shape[MOST_DIMS];
    View in, out;
} Copy;

/* Writes `value` to [channels][begin .. end of step) of a place. */
typedef struct {
    int64_t channels;
    Place out;
    float value;
    int32_t unused;
} Fill;

/* Takes images apart for a strided convolution or pool: out[c][phase y][phase x][n][i][j] = in[n][c][i * stride_y + y - pad_y][...],
 * `fill` where that lies outside. Every position of out is written: [lead + images * plane) of each phase and channel. */
typedef struct {
    int64_t images, channels, height, width;    /* of in */
    View in;                                    /* strides: image, channel, line, pixel */
    int64_t stride_y, stride_x, first_y, first_x; /* the image line of phase 0, line 0: may be negative */
    int64_t phases_y, phases_x;                 /* phases that are wanted */
    Place out;                                  /* stride: between channels */
    int64_t phase;                              /* distance between phases, in floats */
    int64_t lead, plane, line;                  /* of out: border before the first image; distances of images and lines */
    int64_t rows, columns;                      /* lines and pixels of each phase that are read from in; the rest is `fill` */
    float fill;
    int32_t unused;
} Phases;

/* out[c][p] = largest or mean of in[c][p + offset[k]] over the taps k; `scale`, if not NULL, by position (a mean's
 * reciprocal counts), else 1 / taps. */
typedef struct {
    int64_t channels, taps, largest;
    WIDE_POINTER(const int32_t, offset); /* bytes, may be negative */
    WIDE_POINTER(const float, scale);    /* [positions] or NULL */
    Place in, out;
    WIDE_POINTER(const int32_t, inside);
    Apart apart;
} Pool;

/* out[n][c][y][x] from in by interpolation: two source lines and pixels with their weights for every output line and
 * pixel; nearest has both the same. strides of the views: image, channel, line, pixel. */
typedef struct {
    int64_t images, channels, out_height, out_width;
    View in, out;
    WIDE_POINTER(const int32_t, line0);
    WIDE_POINTER(const int32_t, line1);   /* [out_height] */
    WIDE_POINTER(const float, line_weight);       /* [out_height] of line1 */
    WIDE_POINTER(const int32_t, pixel0);
    WIDE_POINTER(const int32_t, pixel1); /* [out_width] */
    WIDE_POINTER(const float, pixel_weight);
} Upsample;

/* out[feature][position] = table[id[position]][feature], for 64-bit ids of any strides; an id outside is an error. */
typedef struct {
    int64_t rows, features;
    WIDE_POINTER(const float, table); /* [rows][features] */
    int64_t dims, shape[MOST_DIMS];
    View id;  /* strides in elements of 8 bytes; offset too */
    View out; /* strides of the same dimensions; `feature` below */
    int64_t feature; /* distance between features in out */
} Embedding;

/* out = in as floats, any strides; `bytes` of an element of in: 8 for integers, 1 for truth values (0 or 1). */
typedef struct {
    int64_t dims, shape[MOST_DIMS], bytes;
    View in; /* strides and offset in elements */
    View out;
} Cast;

/* ---- recurrent layers ---- */

/* All steps of a recurrent layer from a state of zeros: the input's part of the sums was computed before. Gates and
 * cells are those of recurrent.h. `rows` is used for sixteen images at a time, `slices` for one. */
typedef struct {
    int64_t cell, hidden, num_rows; /* num_rows: gates * hidden */
    int64_t steps, images, reverse, single;
    Rows rows;
    Slices slices;
    WIDE_POINTER(const float, bias); /* [num_rows] */
    View in;           /* strides: image, step; the sums of a step are neighbours */
    View out;          /* likewise, for the units */
} RecurrentSteps;

/* ---- programs ---- */

enum Kind {
    OP_POINTWISE, OP_MULTIPLY, OP_DENSE_MULTIPLY, OP_MATRIX_VECTOR, OP_MATRIX_MULTIPLY, OP_ATTENTION, OP_CHANNEL_NORM,
    OP_GROUP_NORM, OP_SOFTMAX, OP_REDUCE, OP_COPY, OP_FILL, OP_PHASES, OP_POOL, OP_UPSAMPLE, OP_EMBEDDING,
    OP_RECURRENT, OP_CAST, OP_DEPTHWISE, OP_CACHED_ATTENTION, OP_NUM_KINDS
};

typedef struct {
    int64_t kind;
    WIDE_POINTER(const void, of); /* the structure of this kind */
} Operation;

typedef struct {
    int64_t operation, begin, end; /* positions, for the kinds that have them */
} Step;

typedef struct {
    WIDE_POINTER(const Operation, operations);
    WIDE_POINTER(const Step, steps);
    int64_t num_steps;
    int64_t scratch; /* floats that one thread's operations need beside the arena */
} Program;

/* What a kernel gets: the buffers, the range of positions, its share of the work, scratch memory. */
typedef struct {
    float *const *buffers;
    int64_t begin, end;
    int64_t part, num_parts;
    float *scratch;
} Context;

/* Returns nonzero for bad data (an id outside of its table). All threads call it with their `part`. */
typedef int64_t (*Kernel)(const void *of, const Context *context);

extern const Kernel sg_engine_avx512[OP_NUM_KINDS], sg_engine_avx2[OP_NUM_KINDS], sg_engine_plain[OP_NUM_KINDS];

/* Where position p reads in the input. */
static inline int64_t sg_source(const Apart *apart, int64_t p)
{
    return apart->line ? p / apart->line * apart->in_line + p % apart->line * apart->pixels : p;
}

static inline float *sg_at(const Context *context, int64_t buffer, int64_t offset)
{
    return context->buffers[buffer] + offset;
}

#endif
