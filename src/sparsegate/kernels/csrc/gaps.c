/* The format gaps: puts kept elements where Rice-coded distances say. docs/formats/gaps.md has the layout.
 *
 * Element i lies at ((one[i] - i) << rice) + r[0] + ... + r[i] + i, where one[i] is the place of the i-th one among the
 * bits of the quotients: the zeros before it are the quotients' sum. So a thread can begin anywhere by counting bits.
 * What is read here has been checked: there are `count` ones, and the last element is inside the tensor.
 */
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define WINDOW 16384 /* bytes of the tensor that are put together in the cache, then written past it */

typedef struct {
    const uint8_t *quotients; /* [num_bytes] */
    int64_t num_bytes;
    const uint8_t *planes; /* [rice][plane_bytes], the lowest bits first */
    int64_t plane_bytes;
    int rice;
} Gaps;

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

/* The place of a one, counted from zero, among the bits of the quotients. */
FOR_EACH_PROCESSOR static int64_t place_of_one(const Gaps *gaps, int64_t number)
{
    for (int64_t at = 0; at < gaps->num_bytes; at += 8) {
        uint64_t word = word_at(gaps->quotients, at, gaps->num_bytes);
        int64_t here = __builtin_popcountll(word);
        if (number < here) {
            for (; number > 0; number--)
                word &= word - 1;
            return 8 * at + __builtin_ctzll(word);
        }
        number -= here;
    }
    return 8 * gaps->num_bytes;
}

/* The sum of the first remainders, a multiple of eight of them. */
FOR_EACH_PROCESSOR static int64_t sum_of_remainders(const Gaps *gaps, int64_t count)
{
    int64_t sum = 0;
    for (int bit = 0; bit < gaps->rice; bit++)
        sum += ones_in(gaps->planes + bit * gaps->plane_bytes, count / 8) << bit;
    return sum;
}

/* Bit i of a byte as the lowest bit of byte i of a word. */
static inline uint64_t spread(uint64_t byte)
{
    uint64_t low = (byte & 0x7f) * UINT64_C(0x0002040810204081) & UINT64_C(0x0001010101010101);
    return low | (byte >> 7) << 56;
}

/* The sums of the first one, two .. eight of the remainders whose bits stand in byte `at` of every plane. */
static inline void sums_at(const Gaps *gaps, int64_t at, uint64_t out[8])
{
    memset(out, 0, 8 * sizeof *out);
    for (int low = 0; low < gaps->rice; low += 5) { /* five bits at a time: eight such numbers add up to a byte at most */
        uint64_t word = 0;
        for (int bit = low; bit < gaps->rice && bit < low + 5; bit++)
            word |= spread(gaps->planes[bit * gaps->plane_bytes + at]) << (bit - low);
        word *= UINT64_C(0x0101010101010101); /* each byte becomes the sum of those up to it */
        for (int i = 0; i < 8; i++)
            out[i] += (word >> (8 * i) & 255) << low;
    }
}

/* Copies without reading what was there, where the processor can: a tensor is larger than the caches. */
static inline void stream(char *to, const char *from, int64_t count)
{
#if defined(__SSE2__)
    int64_t head = (int64_t)(-(uintptr_t)to & 15);
    if (count >= 64) {
        memcpy(to, from, (size_t)head);
        for (to += head, from += head, count -= head; count >= 16; to += 16, from += 16, count -= 16)
            _mm_stream_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    }
#endif
    memcpy(to, from, (size_t)count);
}

/* Writes elements first .. last of the kept ones, and zeros between them, from element `begin` of the tensor to `end`. */
#define DEFINE_WRITE(NAME, TYPE)                                                                                       \
    FOR_EACH_PROCESSOR static void NAME(const Gaps *gaps, int64_t first, int64_t last, const TYPE *values, TYPE *out, int64_t begin,      \
                     int64_t end)                                                                                      \
    {                                                                                                                  \
        enum { SIZE = WINDOW / sizeof(TYPE) };                                                                         \
        TYPE window[SIZE] = {0}; /* elements begin .. begin + SIZE */                                                  \
        int64_t sum = sum_of_remainders(gaps, first), i = first;                                                       \
        int64_t place = first < last ? place_of_one(gaps, first) : 0;                                                  \
        uint64_t sums[8] = {0};                                                                                        \
        int64_t at = place / 64 * 8;                                                                                   \
        uint64_t word = word_at(gaps->quotients, at, gaps->num_bytes) & ~UINT64_C(0) << (place % 64);                  \
        for (; i < last; i += 8, sum += (int64_t)sums[7]) {                                                            \
            sums_at(gaps, i / 8, sums);                                                                                \
            int here = last - i < 8 ? (int)(last - i) : 8;                                                             \
            for (int j = 0; j < here; j++) {                                                                           \
                while (!word)                                                                                          \
                    word = word_at(gaps->quotients, at += 8, gaps->num_bytes);                                         \
                int64_t quotients = 8 * at + __builtin_ctzll(word) - i - j;                                            \
                int64_t to = (quotients << gaps->rice) + sum + (int64_t)sums[j] + i + j;                               \
                word &= word - 1;                                                                                      \
                for (; to >= begin + SIZE; begin += SIZE) {                                                            \
                    stream((char *)(out + begin), (const char *)window, sizeof window);                                \
                    memset(window, 0, sizeof window);                                                                  \
                }                                                                                                      \
                window[to - begin] = values[i + j];                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (; begin < end; begin += SIZE) {                                                                           \
            int64_t count = end - begin < SIZE ? end - begin : SIZE;                                                   \
            stream((char *)(out + begin), (const char *)window, count * (int64_t)sizeof(TYPE));                        \
            memset(window, 0, sizeof window);                                                                          \
        }                                                                                                              \
    }

DEFINE_WRITE(write_1, uint8_t)
DEFINE_WRITE(write_2, uint16_t)
DEFINE_WRITE(write_4, uint32_t)
DEFINE_WRITE(write_8, uint64_t)

/* Where the part of the tensor begins that the kept elements from `first` on fill. */
static int64_t begin_of(const Gaps *gaps, int64_t first)
{
    if (first == 0)
        return 0;
    return ((place_of_one(gaps, first - 1) - first + 1) << gaps->rice) + sum_of_remainders(gaps, first) + first;
}

KERNEL int64_t sg_gaps_write(const uint8_t *quotients, int64_t num_bytes, const uint8_t *planes, int64_t plane_bytes, int rice,
                             const void *values, int64_t count, int width, void *out, int64_t total, int num_threads)
{
    Gaps gaps = {quotients, num_bytes, planes, plane_bytes, rice};
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return 1;
#pragma omp parallel for num_threads(num_threads) schedule(static, 1) if (num_threads > 1)
    for (int part = 0; part < num_threads; part++) {
        int64_t first = count * part / num_threads / 8 * 8;
        int64_t last = part + 1 == num_threads ? count : count * (part + 1) / num_threads / 8 * 8;
        int64_t begin = begin_of(&gaps, first), end = part + 1 == num_threads ? total : begin_of(&gaps, last);
        if (width == 1)
            write_1(&gaps, first, last, values, out, begin, end);
        else if (width == 2)
            write_2(&gaps, first, last, values, out, begin, end);
        else if (width == 4)
            write_4(&gaps, first, last, values, out, begin, end);
        else
            write_8(&gaps, first, last, values, out, begin, end);
    }
    return 0;
}

/* The number of ones among the bits of some bytes. */
KERNEL FOR_EACH_PROCESSOR int64_t sg_count_ones(const uint8_t *bytes, int64_t count)
{
    return ones_in(bytes, count);
}
