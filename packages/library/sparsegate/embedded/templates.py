"""The parts of an exported C file that are the same for every network.

NAME and PREFIX stand for the network's name. Words between @ are replaced for each network.
"""

HEADER = """/* @weights@ weights in @kinds@. Written by sparsegate @version@. */
#ifndef PREFIX_H
#define PREFIX_H

#include <stdint.h>

@sizes@
#define PREFIX_ARENA @arena@

#ifdef __cplusplus
extern "C" {
#endif

/* Memory takes
 *   flash: @flash@ bytes of weights and tables, and the code;
 *   RAM:   @ram@ bytes, which NAME_arena is, and the inputs and outputs of the caller.
 */
typedef union {
    uint64_t alignment;
    unsigned char bytes[PREFIX_ARENA];
} NAME_arena;

/* Computes the outputs of one input.
 *   @inputs@
 *   @outputs@
 * It writes to the outputs and the arena only, whose bytes mean nothing between two calls. The
 * arena, inputs and outputs must not overlap. Threads may call it at once, each with an arena.
 */
void NAME_run(NAME_arena *arena, @parameters@);

#ifdef __cplusplus
}
#endif
#endif
"""

SOURCE = """#include "@include@"

#include <math.h>
#include <stdint.h>

typedef @row_count@ row_count;

@functions@

@data@

void NAME_run(NAME_arena *arena, @parameters@)
{
    unsigned char *memory = arena->bytes;
    (void)memory; /* a network of one layer needs none */
@steps@
}
"""
