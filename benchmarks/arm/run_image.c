/* Runs a program image on files of raw numbers: run_image IMAGE RUNS INPUT... OUTPUT... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

int64_t sg_image_room(const void *bytes, int64_t size);
int64_t sg_image_load(const void *bytes, int64_t size, void *room, int64_t room_size);
int64_t sg_image_memory(const SgImage *image, int64_t threads);
int64_t sg_image_run(const SgImage *image, void *memory, int64_t threads, const void *const *inputs, void *const *outputs);
const char *sg_image_error(int64_t code);

#define MOST 16 /* inputs, and outputs */

static void stop(const char *words)
{
    fprintf(stderr, "run_image: %s\n", words);
    exit(1);
}

/* The content of a file, from a multiple of 64 bytes on. */
static void *content_of(const char *path, int64_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        stop(path);
    *size = ftell(file);
    void *content = aligned_alloc(64, (size_t)(*size / 64 + 1) * 64);
    rewind(file);
    if (!content || fread(content, 1, (size_t)*size, file) != (size_t)*size)
        stop(path);
    fclose(file);
    return content;
}

static void save(const char *path, const void *content, int64_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content, 1, (size_t)size, file) != (size_t)size || fclose(file))
        stop(path);
}

static int64_t bytes_of(const SgTensor *tensor)
{
    static const int64_t widths[] = {4, 8, 1};
    int64_t bytes = widths[tensor->kind];
    for (int32_t d = 0; d < tensor->dims; d++)
        bytes *= tensor->shape[d];
    return bytes;
}

int main(int argc, char **argv)
{
    int64_t size = 0, given = 0;
    const void *inputs[MOST];
    void *outputs[MOST];
    if (argc < 3)
        stop("pass an image and a number of runs");
    const void *bytes = content_of(argv[1], &size);
    const int64_t room = sg_image_room(bytes, size);
    if (room < 0)
        stop(sg_image_error(-room));
    SgImage *image = malloc((size_t)room);
    const int64_t error = sg_image_load(bytes, size, image, room);
    if (error)
        stop(sg_image_error(error));
    const int64_t num_inputs = image->header->num_inputs, num_outputs = image->header->num_outputs;
    if (num_inputs > MOST || num_outputs > MOST || argc != 3 + num_inputs + num_outputs)
        stop("pass a file for each input and output");
    for (int64_t i = 0; i < num_inputs; i++) {
        inputs[i] = content_of(argv[3 + i], &given);
        if (given != bytes_of(image->tensors + i))
            stop("an input has another size");
    }
    for (int64_t i = 0; i < num_outputs; i++)
        outputs[i] = calloc(1, (size_t)bytes_of(image->tensors + num_inputs + i) + 1);
    void *memory = calloc(1, (size_t)sg_image_memory(image, 1));
    for (int runs = atoi(argv[2]); runs > 0; runs--)
        if (sg_image_run(image, memory, 1, inputs, outputs))
            stop("an index is outside of its table");
    for (int64_t i = 0; i < num_outputs; i++)
        save(argv[3 + num_inputs + i], outputs[i], bytes_of(image->tensors + num_inputs + i));
    return 0;
}
