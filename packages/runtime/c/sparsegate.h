/* Runs sparse networks in C programs: five functions, C99.
 *
 * A network is loaded from a program image, which Python writes for inputs of fixed sizes:
 *
 *     sparsegate-run net.sgn --image net.sgi --size batch=1
 *
 * Loading checks every number of the image: a damaged or hostile one is an error in words. Running allocates no memory.
 * Several threads may run one network at the same time, each with a lane of its own. */
#ifndef SPARSEGATE_H
#define SPARSEGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define SG_API
#else
#define SG_API __attribute__((visibility("default")))
#endif

#define SG_MOST_DIMS 8

typedef struct sg_network sg_network;

enum sg_type { SG_FLOAT32, SG_INT64, SG_BOOL }; /* of four, eight and one bytes */

/* An input or output: a tensor without gaps, the last dimension innermost. */
typedef struct {
    enum sg_type type;
    int num_dims;
    int64_t shape[SG_MOST_DIMS];
    size_t num_bytes;
    const char *name; /* lives as long as the network */
} sg_tensor;

typedef struct {
    int num_inputs, num_outputs;
    const sg_tensor *inputs, *outputs; /* they live as long as the network */
} sg_shapes;

/* Loads a network from an image in memory.
 *
 * bytes: the image, from a multiple of 8 bytes on. It is not copied: it must stay where it is until sg_free. Memory from
 *     malloc and files that are mapped to memory fit.
 * num_lanes: how many threads may run the network at the same time, 1 to 1024. Each lane has memory for its activations.
 * num_threads: how many threads share the work of one run, 1 to 1024.
 *
 * Returns NULL if the image is no good or memory is short; sg_last_error says why. */
SG_API sg_network *sg_load(const void *bytes, size_t num_bytes, int num_lanes, int num_threads);

/* Names, types and shapes of the inputs and outputs. */
SG_API sg_shapes sg_describe(const sg_network *network);

/* Computes the outputs.
 *
 * lane: 0 to num_lanes - 1. No two threads may use one lane at the same time.
 * inputs, outputs: the address of every tensor, in the order of sg_describe. They must not overlap.
 *
 * Returns 0, or 1 if an input was no good (an index outside of its table), or the lane does not exist. */
SG_API int sg_run(sg_network *network, int lane, const void *const *inputs, void *const *outputs);

/* Frees a network; NULL is allowed. */
SG_API void sg_free(sg_network *network);

/* Why the last call of this thread failed, in words; an empty text if none did. */
SG_API const char *sg_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
