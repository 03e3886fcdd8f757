/* The engine's kernels for one kind of processor; NAME, TARGET, MAX_TILE, LARGER and STORE_FIRST as in variant.h. */
#include "engine.h"
#include "tile.h"

#define KERNEL_OF(name) TARGET static int64_t NAME(name)(const void *of, const Context *context)

#include "engine_math.h"
#include "engine_pointwise.h"
#include "engine_multiply.h"
#include "engine_vector.h"
#include "engine_dense.h"
#include "engine_product.h"
#include "engine_attention.h"
#include "engine_norm.h"
#include "engine_softmax.h"
#include "engine_reduce.h"
#include "engine_move.h"
#include "engine_cast.h"
#include "engine_image.h"
#include "engine_recurrent.h"
#include "engine_depthwise.h"
#ifndef IMAGES_ALONE /* program images hold no caches */
#include "engine_cached.h"
#endif

const Kernel NAME(sg_engine)[OP_NUM_KINDS] = {
    [OP_POINTWISE] = NAME(pointwise),
    [OP_MULTIPLY] = NAME(multiply),
    [OP_DENSE_MULTIPLY] = NAME(dense_multiply),
    [OP_MATRIX_VECTOR] = NAME(matrix_vector),
    [OP_MATRIX_MULTIPLY] = NAME(matrix_multiply),
    [OP_ATTENTION] = NAME(attention),
    [OP_CHANNEL_NORM] = NAME(channel_norm),
    [OP_GROUP_NORM] = NAME(group_norm),
    [OP_SOFTMAX] = NAME(softmax),
    [OP_REDUCE] = NAME(reduce),
    [OP_COPY] = NAME(copy),
    [OP_FILL] = NAME(fill),
    [OP_PHASES] = NAME(phases),
    [OP_POOL] = NAME(pool),
    [OP_UPSAMPLE] = NAME(upsample),
    [OP_EMBEDDING] = NAME(embedding),
    [OP_RECURRENT] = NAME(recurrent),
    [OP_CAST] = NAME(cast),
    [OP_DEPTHWISE] = NAME(depthwise),
#ifndef IMAGES_ALONE
    [OP_CACHED_ATTENTION] = NAME(cached_attention),
#endif
};
