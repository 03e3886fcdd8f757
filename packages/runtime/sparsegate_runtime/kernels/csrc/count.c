/* Counts that validate a file before it is decoded. Several threads read, as the file may not be in memory
 * yet. */
#include "kernels.h"
#include "words.h"

#define PIECE (1 << 20) /* bytes that a thread takes at a time */
#define WORTH (1 << 22) /* bytes from which more threads pay off */

FOR_EACH_PROCESSOR static int64_t ones_of(const uint8_t *bytes, int64_t count)
{
    return ones_in(bytes, count);
}

#define DEFINE_ANY_ZERO(NAME, TYPE)                                                                          \
    FOR_EACH_PROCESSOR static int NAME(const uint8_t *bytes, int64_t count)                                  \
    {                                                                                                        \
        TYPE value, zeros = 0;                                                                               \
        for (int64_t at = 0; at < count; at += (int64_t)sizeof value) {                                      \
            memcpy(&value, bytes + at, sizeof value); /* values of a file may be unaligned */                \
            zeros |= value == 0;                                                                             \
        }                                                                                                    \
        return zeros != 0;                                                                                   \
    }

DEFINE_ANY_ZERO(any_zero_1, uint8_t)
DEFINE_ANY_ZERO(any_zero_2, uint16_t)
DEFINE_ANY_ZERO(any_zero_4, uint32_t)
DEFINE_ANY_ZERO(any_zero_8, uint64_t)

static int any_zero(const uint8_t *bytes, int64_t count, int width)
{
    if (width == 1)
        return any_zero_1(bytes, count);
    if (width == 2)
        return any_zero_2(bytes, count);
    return width == 4 ? any_zero_4(bytes, count) : any_zero_8(bytes, count);
}

static inline int64_t piece_at(int64_t at, int64_t count)
{
    return count - at < PIECE ? count - at : PIECE;
}

/* The number of set bits in `count` bytes. */
KERNEL int64_t sg_count_ones(const uint8_t *bytes, int64_t count, int num_threads)
{
    int64_t ones = 0;
#pragma omp parallel for num_threads(num_threads) reduction(+ : ones) if (num_threads > 1 && count >= WORTH)
    for (int64_t at = 0; at < count; at += PIECE)
        ones += ones_of(bytes + at, piece_at(at, count));
    return ones;
}

/* Whether any value in `count` bytes is zero; -1 if the width is not that of a type. */
KERNEL int64_t sg_any_zero(const uint8_t *bytes, int64_t count, int width, int num_threads)
{
    int found = 0;
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return -1;
#pragma omp parallel for num_threads(num_threads) reduction(| : found) if (num_threads > 1 && count >= WORTH)
    for (int64_t at = 0; at < count; at += PIECE)
        found |= any_zero(bytes + at, piece_at(at, count), width);
    return found;
}
