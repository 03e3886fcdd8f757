/* Chains of sparse layers on any processor: the compiler maps a vector to its registers, such as four of
 * NEON. */
#define NAME(x) x##_plain
#define TARGET
#define MAX_TILE 6
#define PIECE 4
#define LARGER(one, two) sg_larger(one, two)
#define STORE_FIRST(to, vector, count) memcpy(to, &(vector), (size_t)(count) * sizeof(float))

typedef float Wide __attribute__((vector_size(64), aligned(4)));
typedef int Mask __attribute__((vector_size(64), aligned(4)));

static inline Wide sg_larger(Wide one, Wide two)
{
    Mask first = one > two;
    return (Wide)((first & (Mask)one) | (~first & (Mask)two));
}

#include "variant.h"
