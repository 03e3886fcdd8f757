/* Runs one network in two threads at the same time, and compares what they compute: two_lanes net.sgi */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sparsegate.h>

typedef struct {
    sg_network *network;
    int lane, failed;
    void **outputs;
} job;

static void **tensors_of(const sg_tensor *tensors, int count)
{
    void **made = calloc((size_t)count + 1, sizeof(void *));
    for (int i = 0; made && i < count; i++)
        if (!(made[i] = calloc(1, tensors[i].num_bytes)))
            exit(1);
    return made;
}

static void free_tensors(void **tensors, int count)
{
    for (int i = 0; i < count; i++)
        free(tensors[i]);
    free(tensors);
}

static void *work(void *given)
{
    job *mine = given;
    const sg_shapes shapes = sg_describe(mine->network);
    void **inputs = tensors_of(shapes.inputs, shapes.num_inputs);
    for (int turn = 0; turn < 5; turn++)
        mine->failed |= sg_run(mine->network, mine->lane, (const void *const *)inputs, mine->outputs);
    free_tensors(inputs, shapes.num_inputs);
    return NULL;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: two_lanes net.sgi\n");
        return 2;
    }
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(size + 1);
    if (!bytes || fread(bytes, 1, size, file) != size)
        return 1;
    fclose(file);
    sg_network *network = sg_load(bytes, size, 2, 1);
    if (!network) {
        fprintf(stderr, "%s\n", sg_last_error());
        free(bytes);
        return 1;
    }
    const sg_shapes shapes = sg_describe(network);
    job jobs[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = (job){network, i, 0, tensors_of(shapes.outputs, shapes.num_outputs)};
        if (pthread_create(threads + i, NULL, work, jobs + i))
            return 1;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int same = !jobs[0].failed && !jobs[1].failed;
    for (int o = 0; same && o < shapes.num_outputs; o++)
        same = !memcmp(jobs[0].outputs[o], jobs[1].outputs[o], shapes.outputs[o].num_bytes);
    printf("two threads compute %s\n", same ? "the same" : "something else");
    for (int i = 0; i < 2; i++)
        free_tensors(jobs[i].outputs, shapes.num_outputs);
    sg_free(network);
    free(bytes);
    return same ? 0 : 1;
}
