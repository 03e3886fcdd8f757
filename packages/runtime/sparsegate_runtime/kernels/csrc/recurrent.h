/* Recurrent layers with a sparse recurrent matrix. Python fills the structure, C only reads it. */
#ifndef SPARSEGATE_RECURRENT_H
#define SPARSEGATE_RECURRENT_H

#include "chain.h"

enum { TANH_CELL, RELU_CELL, LSTM_CELL, GRU_CELL };

typedef struct {
    int64_t cell;   /* one of the four above */
    int64_t hidden; /* units */
    Layer matrix;   /* linear: [gates * hidden] rows and [hidden] columns; only rows, bias, panel and slices are read */
} Recurrent;

/* One call. The input's part of every gate's sum was computed before; `in` holds it for each step and image. */
typedef struct {
    const Recurrent *net;
    const float *in; /* [gates * hidden] at in + step * in_step + image * in_image */
    float *out;      /* [hidden] at out + step * out_step + image * out_image */
    float *state;    /* [images][hidden]: the state before the first step, and afterwards the one after the last */
    float *memory;   /* [images][hidden]: the cell state of an LSTM, likewise; unused by the other cells */
    int64_t steps, images;
    int64_t in_step, in_image, out_step, out_image; /* in floats */
    int64_t reverse;                                /* whether the last step comes first */
} Sequence;

/* Images `first` to `first + count` by one thread; at most sixteen of them, and one in the single form. */
typedef void (*RunSequence)(const Sequence *call, int64_t first, int64_t count, float *scratch);

void sg_steps_avx512(const Sequence *call, int64_t first, int64_t count, float *scratch);
void sg_steps_avx2(const Sequence *call, int64_t first, int64_t count, float *scratch);
void sg_steps_plain(const Sequence *call, int64_t first, int64_t count, float *scratch);
void sg_steps_single_avx512(const Sequence *call, int64_t first, int64_t count, float *scratch);
void sg_steps_single_avx2(const Sequence *call, int64_t first, int64_t count, float *scratch);
void sg_steps_single_plain(const Sequence *call, int64_t first, int64_t count, float *scratch);

#endif
