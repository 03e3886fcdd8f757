/* The format gaps with AVX-512: all set bits of a word at once, sixteen positions at once, whole cache
 * lines. */
#include "gaps.h"

#if defined(__x86_64__) && (__GNUC__ >= 8 || defined(__clang__))
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")))

static const uint8_t COUNTING[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                     22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
                                     44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* Sixteen bytes, plus an offset. */
WIDE static inline void put_places(uint32_t *out, __m128i bytes, __m512i from)
{
    _mm512_storeu_si512(out, _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), from));
}

/* The positions of the next `count` set bits of the quotients; writes up to 63 more. */
WIDE static void find_places(Cursor *cursor, int64_t count, uint32_t out[BLOCK + 64])
{
    const Gaps *gaps = cursor->gaps;
    const __m512i counting = _mm512_loadu_si512(COUNTING);
    int64_t found = 0;
    for (;; cursor->word = word_at(gaps->quotients, cursor->at += 8, gaps->num_bytes)) {
        int here = __builtin_popcountll(cursor->word);
        __m512i ones = _mm512_maskz_compress_epi8(cursor->word, counting);
        __m512i from = _mm512_set1_epi32((int)(8 * cursor->at));
        put_places(out + found, _mm512_castsi512_si128(ones), from);
        put_places(out + found + 16, _mm512_extracti32x4_epi32(ones, 1), from);
        if (here > 32) {
            put_places(out + found + 32, _mm512_extracti32x4_epi32(ones, 2), from);
            put_places(out + found + 48, _mm512_extracti32x4_epi32(ones, 3), from);
        }
        found += here;
        if (found >= count || cursor->at >= gaps->num_bytes)
            break;
    }
    int64_t used = __builtin_popcountll(cursor->word) - (found > count ? found - count : 0);
    cursor->word &= used < 64 ? ~_pdep_u64((UINT64_C(1) << used) - 1, cursor->word) : 0;
}

/* Prefix sums of sixteen numbers. */
WIDE static inline __m512i sums(__m512i numbers)
{
    const __m512i zero = _mm512_setzero_si512();
    numbers = _mm512_add_epi32(numbers, _mm512_alignr_epi32(numbers, zero, 15));
    numbers = _mm512_add_epi32(numbers, _mm512_alignr_epi32(numbers, zero, 14));
    numbers = _mm512_add_epi32(numbers, _mm512_alignr_epi32(numbers, zero, 12));
    return _mm512_add_epi32(numbers, _mm512_alignr_epi32(numbers, zero, 8));
}

/* Sixteen remainders: bits `shift` .. `shift` + 15 of a word of each plane. */
WIDE static inline __m512i remainders(const uint64_t *words, int rice, int shift)
{
    __m512i found = _mm512_setzero_si512();
    for (int bit = 0; bit < rice; bit++)
        found = _mm512_mask_or_epi32(found, (__mmask16)(words[bit] >> shift), found, _mm512_set1_epi32(1 << bit));
    return found;
}

WIDE static void positions(Cursor *cursor, int64_t count, int64_t out[BLOCK])
{
    const Gaps *gaps = cursor->gaps;
    const __m128i rice = _mm_cvtsi32_si128(gaps->rice);
    const __m512i counting = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)COUNTING));
    __m512i sum = _mm512_set1_epi32((int)cursor->sum);
    uint32_t places[BLOCK + 64];
    uint64_t words[32];
    find_places(cursor, count, places);
    for (int64_t i = 0; i < count; i += 16) {
        if (i % 64 == 0)
            for (int bit = 0; bit < gaps->rice; bit++)
                words[bit] = word_at(gaps->planes + bit * gaps->plane_bytes, (cursor->next + i) / 8, gaps->plane_bytes);
        __m512i numbers = _mm512_add_epi32(counting, _mm512_set1_epi32((int)(cursor->next + i)));
        __m512i quotients = _mm512_sub_epi32(_mm512_loadu_si512(places + i), numbers);
        sum = _mm512_add_epi32(sum, sums(remainders(words, gaps->rice, (int)(i % 64))));
        __m512i found = _mm512_add_epi32(_mm512_add_epi32(_mm512_sll_epi32(quotients, rice), sum), numbers);
        _mm512_storeu_si512(out + i, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(found)));
        _mm512_storeu_si512(out + i + 8, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(found, 1)));
        sum = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), sum);
    }
    cursor->sum = (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(sum));
    cursor->next += count;
}

/* Copies some bytes through the caches, and clears the source. */
static inline void move_few(char *to, char *window, int64_t num_bytes)
{
    memcpy(to, window, (size_t)num_bytes);
    memset(window, 0, (size_t)num_bytes);
}

WIDE static void move(char *to, char *window, int64_t num_bytes)
{
    int64_t done = (int64_t)(-(uintptr_t)to & 63);
    done = done < num_bytes ? done : num_bytes;
    move_few(to, window, done);
    for (; done + 64 <= num_bytes; done += 64) {
        __m512i line = _mm512_loadu_si512(window + done);
        _mm512_storeu_si512(window + done, _mm512_setzero_si512());
        _mm512_stream_si512((__m512i *)(void *)(to + done), line);
    }
    move_few(to + done, window + done, num_bytes - done);
}

const Way *avx512_way(void)
{
    static const Way way = {positions, move};
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2") ? &way : 0;
}
#else
const Way *avx512_way(void)
{
    return 0;
}
#endif
