/* The engine on any processor: the compiler maps a vector to its registers, such as four of
 * NEON. */
#include <math.h>
#include <stdint.h>

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

typedef int32_t Choice __attribute__((vector_size(16)));
#define WIDTH 4
#define ABOVE(a, b) ((Choice)((a) > (b)))
#define UNKNOWN(a) ((Choice)((a) != (a)))
#define PICK(choice, a, b) ((Part)(((choice) & (Choice)(a)) | (~(choice) & (Choice)(b))))
#define LARGER_PART(a, b) PICK(ABOVE(a, b), a, b) /* b if one is NaN, as on x86 */
#define SMALLER_PART(a, b) PICK(ABOVE(b, a), a, b)
#define ROOT(a) ((Part){sqrtf((a)[0]), sqrtf((a)[1]), sqrtf((a)[2]), sqrtf((a)[3])})

#include "engine_variant.h"
