/* The C library: memory and words around program images. */
#include "sparsegate.h"

#include <stdlib.h>
#include <string.h>

#include "image.h"

#define MOST_LANES 1024

int64_t sg_image_room(const void *bytes, int64_t size);
int64_t sg_image_load(const void *bytes, int64_t size, void *room, int64_t room_size);
const char *sg_image_error(int64_t code);
int64_t sg_image_num(const SgImage *image, int64_t outputs);
const SgTensor *sg_image_tensor(const SgImage *image, int64_t outputs, int64_t index);
int64_t sg_image_memory(const SgImage *image, int64_t threads);
int64_t sg_image_run(const SgImage *image, void *memory, int64_t threads, const void *const *inputs,
                     void *const *outputs);

struct sg_network {
    SgImage *image; /* the room that it was loaded to */
    sg_tensor *tensors;
    sg_shapes shapes;
    int num_lanes, num_threads;
    void **lanes; /* [num_lanes] working memory */
};

static _Thread_local const char *last_error = "";

static void *failed(const char *words)
{
    last_error = words;
    return NULL;
}

/* The same as in sg_image_tensor, in the words of the header. */
static sg_tensor described(const SgTensor *from)
{
    static const size_t width[] = {4, 8, 1};
    sg_tensor made = {.type = (enum sg_type)from->kind, .num_dims = (int)from->dims, .name = from->name};
    made.num_bytes = width[from->kind];
    for (int32_t d = 0; d < from->dims; d++) {
        made.shape[d] = from->shape[d];
        made.num_bytes *= (size_t)from->shape[d];
    }
    return made;
}

static int take_tensors(sg_network *network)
{
    const int64_t inputs = sg_image_num(network->image, 0), outputs = sg_image_num(network->image, 1);
    if (inputs > INT32_MAX / 2 || outputs > INT32_MAX / 2)
        return 0;
    network->tensors = calloc((size_t)(inputs + outputs) + 1, sizeof(sg_tensor));
    if (!network->tensors)
        return 0;
    for (int64_t i = 0; i < inputs; i++)
        network->tensors[i] = described(sg_image_tensor(network->image, 0, i));
    for (int64_t i = 0; i < outputs; i++)
        network->tensors[inputs + i] = described(sg_image_tensor(network->image, 1, i));
    network->shapes = (sg_shapes){(int)inputs, (int)outputs, network->tensors, network->tensors + inputs};
    return 1;
}

/* Memory of every lane, all zero. */
static int take_lanes(sg_network *network, int num_lanes, int num_threads)
{
    const int64_t size = sg_image_memory(network->image, num_threads);
    if (size < 0)
        return 0;
    network->lanes = calloc((size_t)num_lanes, sizeof(void *));
    for (int i = 0; network->lanes && i < num_lanes; i++) {
        network->lanes[i] = calloc(1, (size_t)size);
        if (!network->lanes[i])
            return 0;
        network->num_lanes = i + 1;
    }
    network->num_threads = num_threads;
    return network->lanes != NULL;
}

SG_API sg_network *sg_load(const void *bytes, size_t num_bytes, int num_lanes, int num_threads)
{
    last_error = "";
    if (!bytes)
        return failed("the image is NULL");
    if (num_lanes < 1 || num_lanes > MOST_LANES || num_threads < 1 || num_threads > MOST_LANES)
        return failed("pass 1 to 1024 lanes and 1 to 1024 threads");
    if (num_bytes > (size_t)INT64_MAX)
        return failed("the image is too large");
    const int64_t size = (int64_t)num_bytes, room = sg_image_room(bytes, size);
    if (room < 0)
        return failed(sg_image_error(-room));
    sg_network *network = calloc(1, sizeof(sg_network));
    if (!network)
        return failed("there is too little memory");
    network->image = calloc(1, (size_t)room + 1);
    if (!network->image) {
        sg_free(network);
        return failed("there is too little memory");
    }
    const int64_t error = sg_image_load(bytes, size, network->image, room);
    if (error) {
        sg_free(network);
        return failed(sg_image_error(error));
    }
    if (!take_tensors(network) || !take_lanes(network, num_lanes, num_threads)) {
        sg_free(network);
        return failed("there is too little memory");
    }
    return network;
}

SG_API sg_shapes sg_describe(const sg_network *network)
{
    return network->shapes;
}

SG_API int sg_run(sg_network *network, int lane, const void *const *inputs, void *const *outputs)
{
    last_error = "";
    if (lane < 0 || lane >= network->num_lanes) {
        last_error = "there is no such lane; pass more of them to sg_load";
        return 1;
    }
    const int64_t error = sg_image_run(network->image, network->lanes[lane], network->num_threads, inputs, outputs);
    if (error)
        last_error = sg_image_error(error);
    return error != 0;
}

SG_API void sg_free(sg_network *network)
{
    if (!network)
        return;
    for (int i = 0; i < network->num_lanes; i++)
        free(network->lanes[i]);
    free(network->lanes);
    free(network->tensors);
    free(network->image);
    free(network);
}

SG_API const char *sg_last_error(void)
{
    return last_error;
}
