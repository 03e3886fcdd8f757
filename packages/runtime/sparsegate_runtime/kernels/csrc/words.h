/* Reads bits packed in bytes, lowest bit first, 64 at a time. */
#ifndef SPARSEGATE_WORDS_H
#define SPARSEGATE_WORDS_H

#include <stdint.h>
#include <string.h>

/* The eight bytes from `at` on, with zeros after `end`. */
static inline uint64_t word_at(const uint8_t *bytes, int64_t at, int64_t end)
{
    uint64_t word = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (end - at >= 8) {
        memcpy(&word, bytes + at, 8);
        return word;
    }
#endif
    for (int64_t i = 0; i < 8 && at + i < end; i++)
        word |= (uint64_t)bytes[at + i] << (8 * i);
    return word;
}

static inline int64_t ones_in(const uint8_t *bytes, int64_t count)
{
    int64_t ones = 0;
    for (int64_t at = 0; at < count; at += 8)
        ones += __builtin_popcountll(word_at(bytes, at, count));
    return ones;
}

#endif
