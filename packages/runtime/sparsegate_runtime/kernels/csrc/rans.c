/* Decodes interleaved rANS, the entropy coder of *.sg files (docs/formats/sg.md). Every lane has a state below 2^32; each
 * function reads one group of symbols, which begins at lane 0, and returns how many words were taken in all, or -1 if
 * the words end too early. States are those of the caller, 64 bits wide, and are undefined after an error. */
#include <stdint.h>

#include "kernels.h"

#define SCALE 16
#define MASK 65535u

typedef struct {
    uint64_t *state; /* [lanes] */
    int64_t lanes;
    const uint16_t *words;
    int64_t num_words;
} Stream;

/* The state after a symbol, with the next word if it is needed. */
#define ADVANCE(state, share, rest)                                                                                    \
    do {                                                                                                               \
        uint32_t x_ = (share) * (uint32_t)((state) >> SCALE) + (rest);                                                 \
        const uint32_t empty_ = x_ <= MASK;                                                                            \
        const uint32_t filled_ = x_ << SCALE | words[next];                                                            \
        (state) = empty_ ? filled_ : x_;                                                                               \
        next += empty_;                                                                                                \
    } while (0)

/* All rounds of a group: BODY makes `share` and `rest` of a slot, and writes the symbol to out[at + i]. Once the words
 * are used up, no state may need another. */
#define DECODE(BODY)                                                                                                   \
    const uint16_t *words = stream->words;                                                                             \
    for (int64_t at = 0; at < count; at += stream->lanes) {                                                            \
        const int64_t here = count - at < stream->lanes ? count - at : stream->lanes;                                  \
        const int short_of = stream->num_words - next < here;                                                          \
        for (int64_t i = 0; i < here; i++) {                                                                           \
            const uint32_t slot = (uint32_t)stream->state[i] & MASK;                                                   \
            uint32_t share, rest;                                                                                      \
            BODY;                                                                                                      \
            if (short_of && next >= stream->num_words) {                                                               \
                const uint64_t x = (uint64_t)share * (stream->state[i] >> SCALE) + rest;                               \
                if (x <= MASK)                                                                                         \
                    return -1;                                                                                         \
                stream->state[i] = x;                                                                                  \
                continue;                                                                                              \
            }                                                                                                          \
            ADVANCE(stream->state[i], share, rest);                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    return next;

/* Bits; `one` is the frequency of a one, 1 to 65535. */
KERNEL int64_t sg_rans_bits(const Stream *stream, int64_t next, int64_t count, int64_t one, uint8_t *out)
{
    const uint32_t ones = (uint32_t)one;
    DECODE({
        const uint32_t bit = slot < ones;
        out[at + i] = (uint8_t)bit;
        share = bit ? ones : MASK + 1 - ones;
        rest = bit ? slot : slot - ones;
    })
}

/* Symbols: `symbol_of` every slot, with the start and the frequency of every symbol. */
KERNEL int64_t sg_rans_symbols(const Stream *stream, int64_t next, int64_t count, const uint16_t *symbol_of,
                               const uint32_t *starts, const uint32_t *shares, uint16_t *out)
{
    DECODE({
        const uint16_t symbol = symbol_of[slot];
        out[at + i] = symbol;
        share = shares[symbol];
        rest = slot - starts[symbol];
    })
}

/* Numbers of `bits` bits, 1 to 16, that are all as likely. */
KERNEL int64_t sg_rans_pieces(const Stream *stream, int64_t next, int64_t count, int64_t bits, uint16_t *out)
{
    const uint32_t left = (uint32_t)(SCALE - bits), low = (1u << left) - 1;
    DECODE({
        out[at + i] = (uint16_t)(slot >> left);
        share = 1u << left;
        rest = slot & low;
    })
}

/* Numbers of 32 bits whose bits were rotated left by one: a group of upper bytes by a table, one of bytes and one of
 * 16 bits that are all as likely. `out` is zero before. */
static int64_t upper_bytes(const Stream *stream, int64_t next, int64_t count, const uint16_t *symbol_of,
                           const uint32_t *starts, const uint32_t *shares, uint32_t *out)
{
    DECODE({
        const uint16_t symbol = symbol_of[slot];
        out[at + i] = (uint32_t)symbol << 24;
        share = shares[symbol];
        rest = slot - starts[symbol];
    })
}

static int64_t lower_bytes(const Stream *stream, int64_t next, int64_t count, uint32_t *out)
{
    DECODE({
        out[at + i] |= slot >> 8 << 16;
        share = 256;
        rest = slot & 255;
    })
}

static int64_t lowest_bits(const Stream *stream, int64_t next, int64_t count, uint32_t *out)
{
    DECODE({
        const uint32_t turned = out[at + i] | slot;
        out[at + i] = turned >> 1 | turned << 31;
        share = 1;
        rest = 0;
    })
}

KERNEL int64_t sg_rans_split(const Stream *stream, int64_t next, int64_t count, const uint16_t *symbol_of,
                             const uint32_t *starts, const uint32_t *shares, uint32_t *out)
{
    next = upper_bytes(stream, next, count, symbol_of, starts, shares, out);
    next = next < 0 ? next : lower_bytes(stream, next, count, out);
    return next < 0 ? next : lowest_bits(stream, next, count, out);
}
