/* Runs a network on an input of ones, or on the raw numbers of a file: run_image net.sgi [input.bin [output.bin]]
 *
 * A file holds the elements of the first input, without a header; the first output is written in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sparsegate.h>

static void *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size + 1);
    if (bytes && fread(bytes, 1, *size, file) != *size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

static void print_tensor(const char *what, const sg_tensor *tensor)
{
    printf("%s %s [", what, tensor->name);
    for (int d = 0; d < tensor->num_dims; d++)
        printf("%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
    printf("]\n");
}

/* Ones of the tensor's type, or the numbers of a file. */
static int fill(const sg_tensor *tensor, void *to, const char *path)
{
    size_t size = 0;
    if (path) {
        void *given = read_whole(path, &size);
        const int fits = given && size == tensor->num_bytes;
        if (fits)
            memcpy(to, given, size);
        free(given);
        return fits;
    }
    for (size_t at = 0; at < tensor->num_bytes;) {
        const float one = 1;
        const int64_t index = 1;
        const size_t width = tensor->type == SG_FLOAT32 ? 4 : tensor->type == SG_INT64 ? 8 : 1;
        memcpy((char *)to + at, tensor->type == SG_FLOAT32 ? (const void *)&one : (const void *)&index, width);
        at += width;
    }
    return 1;
}

int main(int argc, char **argv)
{
    size_t size = 0;
    void *bytes = argc > 1 ? read_whole(argv[1], &size) : NULL;
    if (!bytes) {
        fprintf(stderr, "usage: run_image net.sgi [input.bin [output.bin]]\n");
        return 2;
    }
    sg_network *network = sg_load(bytes, size, 1, 1);
    if (!network) {
        fprintf(stderr, "%s: %s\n", argv[1], sg_last_error());
        free(bytes);
        return 1;
    }
    const sg_shapes shapes = sg_describe(network);
    const int all = shapes.num_inputs + shapes.num_outputs;
    void **tensors = calloc((size_t)all, sizeof(void *));
    int ok = tensors != NULL;
    for (int i = 0; ok && i < all; i++)
        ok = (tensors[i] = calloc(1, shapes.inputs[i].num_bytes)) != NULL; /* outputs follow the inputs */
    for (int i = 0; ok && i < shapes.num_inputs; i++) {
        print_tensor("input ", shapes.inputs + i);
        ok = fill(shapes.inputs + i, tensors[i], !i && argc > 2 ? argv[2] : NULL);
    }
    if (!ok)
        fprintf(stderr, "%s does not hold the first input\n", argc > 2 ? argv[2] : "memory");
    if (ok && sg_run(network, 0, (const void *const *)tensors, tensors + shapes.num_inputs)) {
        fprintf(stderr, "%s\n", sg_last_error());
        ok = 0;
    }
    for (int i = 0; ok && i < shapes.num_outputs; i++)
        print_tensor("output", shapes.outputs + i);
    if (ok && argc > 3) {
        FILE *file = fopen(argv[3], "wb");
        const size_t wanted = shapes.outputs[0].num_bytes;
        ok = file && fwrite(tensors[shapes.num_inputs], 1, wanted, file) == wanted;
        if (file)
            ok = !fclose(file) && ok;
    }
    for (int i = 0; tensors && i < all; i++)
        free(tensors[i]);
    free(tensors);
    sg_free(network);
    free(bytes);
    return ok ? 0 : 1;
}
