/* The engine by registers of four floats, which every processor has: the fastest kernels of ARM and WebAssembly. */
#include "four_floats.h"

#define WIDTH 4
#define ABOVE(a, b) ABOVE_FOUR(a, b)
#define UNKNOWN(a) ((Choice)((a) != (a)))
#define PICK(choice, a, b) PICK_FOUR(choice, a, b)
#define LARGER_PART(a, b) LARGER_FOUR(a, b)
#define SMALLER_PART(a, b) SMALLER_FOUR(a, b)
#define ROOT(a) ROOT_FOUR(a)

#include "engine_variant.h"
