/* The format gaps: writes kept elements at positions coded as Rice-coded distances (docs/formats/gaps.md).
 *
 * Element i is at ((one[i] - i) << rice) + r[0] + ... + r[i] + i, where one[i] is the position of the i-th
 * set bit of the quotients: the number of zeros before it is the quotients' sum. So a thread can start
 * anywhere by counting bits. The input was validated: it has `count` set bits, and the last element is
 * inside the tensor. If the file changes meanwhile, the elements are wrong, but every read and write stays
 * in bounds.
 */
#include "gaps.h"
#include "kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define WINDOW 8192 /* bytes of the tensor that are assembled in the cache, which two threads may share */

/* The sum of the first remainders, a multiple of eight of them. */
FOR_EACH_PROCESSOR static int64_t sum_of_remainders(const Gaps *gaps, int64_t count)
{
    int64_t sum = 0;
    for (int bit = 0; bit < gaps->rice; bit++)
        sum += ones_in(gaps->planes + bit * gaps->plane_bytes, count / 8) << bit;
    return sum;
}

/* Moves to a kept element; `begin` is the start of the part of the tensor that this and later elements
 * fill. */
FOR_EACH_PROCESSOR static Cursor cursor_at(const Gaps *gaps, int64_t number, int64_t *begin)
{
    Cursor cursor = {gaps, number, sum_of_remainders(gaps, number), 0, word_at(gaps->quotients, 0, gaps->num_bytes)};
    int64_t left = number, place = -1, here;
    while (left > (here = __builtin_popcountll(cursor.word)) && cursor.at < gaps->num_bytes) {
        cursor.word = word_at(gaps->quotients, cursor.at += 8, gaps->num_bytes);
        left -= here;
    }
    for (; left > 0 && cursor.word; left--) {
        place = 8 * cursor.at + __builtin_ctzll(cursor.word);
        cursor.word &= cursor.word - 1;
    }
    *begin = (place + 1 - number) * (INT64_C(1) << gaps->rice) + cursor.sum + number;
    return cursor;
}

/* Bit i of a byte as the lowest bit of byte i of a word. */
static inline uint64_t spread(uint64_t byte)
{
    uint64_t low = (byte & 0x7f) * UINT64_C(0x0002040810204081) & UINT64_C(0x0001010101010101);
    return low | (byte >> 7) << 56;
}

/* Prefix sums of the eight remainders whose bits are in byte `at` of each plane. */
static inline void sums_at(const Gaps *gaps, int64_t at, uint64_t out[8])
{
    memset(out, 0, 8 * sizeof *out);
    /* five bits at a time: the sum of eight such numbers fits into a byte */
    for (int low = 0; low < gaps->rice; low += 5) {
        uint64_t word = 0;
        for (int bit = low; bit < gaps->rice && bit < low + 5; bit++)
            word |= spread(gaps->planes[bit * gaps->plane_bytes + at]) << (bit - low);
        word *= UINT64_C(0x0101010101010101); /* each byte becomes a prefix sum */
        for (int i = 0; i < 8; i++)
            out[i] += (word >> (8 * i) & 255) << low;
    }
}

/* The positions of the next `count` set bits of the quotients. */
static inline void find_places(Cursor *cursor, int64_t count, int64_t out[BLOCK])
{
    const Gaps *gaps = cursor->gaps;
    int64_t found = 0;
    while (found < count && cursor->at < gaps->num_bytes) {
        for (; cursor->word && found < count; cursor->word &= cursor->word - 1)
            out[found++] = 8 * cursor->at + __builtin_ctzll(cursor->word);
        if (!cursor->word)
            cursor->word = word_at(gaps->quotients, cursor->at += 8, gaps->num_bytes);
    }
}

FOR_EACH_PROCESSOR static void positions(Cursor *cursor, int64_t count, int64_t out[BLOCK])
{
    uint64_t sums[8];
    find_places(cursor, count, out);
    for (int64_t i = 0; i < count; i += 8, cursor->next += 8) {
        sums_at(cursor->gaps, cursor->next / 8, sums);
        for (int j = 0; j < 8; j++) {
            uint64_t number = (uint64_t)(cursor->next + j), quotients = (uint64_t)out[i + j] - number;
            out[i + j] = (int64_t)((quotients << cursor->gaps->rice) + (uint64_t)cursor->sum + sums[j] + number);
        }
        cursor->sum += (int64_t)sums[7];
    }
}

static void move(char *to, char *window, int64_t num_bytes)
{
    int64_t done = 0;
#if defined(__SSE2__)
    int64_t head = (int64_t)(-(uintptr_t)to & 15);
    if (num_bytes >= 64) {
        memcpy(to, window, (size_t)head);
        for (done = head; done + 16 <= num_bytes; done += 16)
            _mm_stream_si128((__m128i *)(void *)(to + done), _mm_loadu_si128((__m128i *)(void *)(window + done)));
    }
#endif
    memcpy(to + done, window + done, (size_t)(num_bytes - done));
    memset(window, 0, (size_t)num_bytes);
}

static const Way PLAIN = {positions, move};

/* Some kept elements, and the part of the tensor that they fill. */
typedef struct {
    Cursor cursor;
    int64_t last;       /* the number of the last of them, plus one */
    const char *values; /* of the elements that are not yet written */
    char *out;          /* the whole tensor */
    int64_t begin, end; /* elements of it */
    int64_t at[BLOCK];  /* positions of kept elements before the cursor; `done` of `here` are written */
    int64_t done, here;
} Part;

/* Whether an element is left to write; finds more positions when all are used. */
static int refill(const Way *way, Part *part)
{
    if (part->done < part->here)
        return 1;
    int64_t left = part->last - part->cursor.next;
    part->done = 0;
    part->here = left < BLOCK ? left : BLOCK;
    if (part->here > 0)
        way->positions(&part->cursor, part->here, part->at);
    return part->here > 0;
}

typedef int64_t Put(char *window, int64_t begin, int64_t size, const int64_t *at, const char *values, int64_t count);

/* Writes values to a window of `size` elements, up to the first outside of it; returns how many. */
#define DEFINE_PUT(NAME, TYPE)                                                                                           \
    static int64_t NAME(char *window, int64_t begin, int64_t size, const int64_t *at, const char *values, int64_t count) \
    {                                                                                                                    \
        int64_t i = 0;                                                                                                   \
        for (; i < count && (uint64_t)(at[i] - begin) < (uint64_t)size; i++)                                             \
            memcpy((TYPE *)(void *)window + (at[i] - begin), (const TYPE *)(const void *)values + i, sizeof(TYPE));      \
        return i;                                                                                                        \
    }

DEFINE_PUT(put_1, uint8_t)
DEFINE_PUT(put_2, uint16_t)
DEFINE_PUT(put_4, uint32_t)
DEFINE_PUT(put_8, uint64_t)

/* Fills the part window by window; all windows but the first start at a cache line. */
static void write_part(const Way *way, Part *part, int64_t width)
{
    char window[WINDOW] __attribute__((aligned(64))) = {0};
    Put *put = width == 1 ? put_1 : width == 2 ? put_2 : width == 4 ? put_4 : put_8;
    int64_t size = (WINDOW - (int64_t)((uintptr_t)(part->out + part->begin * width) % 64)) / width;
    for (int64_t begin = part->begin; begin < part->end; begin += size, size = WINDOW / width) {
        size = size < part->end - begin ? size : part->end - begin;
        while (refill(way, part)) {
            int64_t here = put(window, begin, size, part->at + part->done, part->values, part->here - part->done);
            part->values += here * width;
            part->done += here;
            if (part->done < part->here)
                break;
        }
        way->move(part->out + begin * width, window, size * width);
    }
#if defined(__SSE2__)
    _mm_sfence(); /* makes the stores that bypass the caches visible to other threads */
#endif
}

/* `wide` selects the AVX-512 decoder if the processor has it; plain C gives the same result. */
KERNEL int64_t sg_gaps_write(const uint8_t *quotients, int64_t num_bytes, const uint8_t *planes, int64_t plane_bytes, int rice,
                             const void *values, int64_t count, int width, void *out, int64_t total, int num_threads,
                             int wide)
{
    Gaps gaps = {quotients, num_bytes, planes, plane_bytes, rice};
    const Way *way = wide && total <= UINT32_MAX ? avx512_way() : NULL;
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return 1;
#pragma omp parallel for num_threads(num_threads) schedule(static, 1) if (num_threads > 1)
    for (int number = 0; number < num_threads; number++) {
        int64_t first = count * number / num_threads / 64 * 64, begin, end = total;
        int64_t last = number + 1 == num_threads ? count : count * (number + 1) / num_threads / 64 * 64;
        Cursor cursor = cursor_at(&gaps, first, &begin);
        if (number + 1 < num_threads)
            cursor_at(&gaps, last, &end);
        Part part = {.cursor = cursor, .last = last, .values = (const char *)values + first * width, .out = out};
        part.begin = begin > 0 ? begin : 0, part.end = end < total ? end : total;
        write_part(way ? way : &PLAIN, &part, width);
    }
    return 0;
}
