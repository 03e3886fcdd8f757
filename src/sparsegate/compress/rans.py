"""An entropy coder: range asymmetric numeral systems, interleaved, so that numpy codes many symbols at once."""

from __future__ import annotations

import numpy as np

from .format import Array

SCALE = 16  # frequencies are out of 2^16
WHOLE = 1 << SCALE
LOW = 1 << 16  # states lie in [LOW, LOW << 16)


def frequencies(counts: Array) -> Array:
    """Frequencies out of 65536 in proportion to counts, at least one for every count above zero.

    >>> frequencies(np.array([0, 1, 3])).tolist()
    [0, 16384, 49152]
    """
    used = counts > 0
    room = WHOLE - int(used.sum())
    shares = np.where(used, 1 + counts * room // max(1, int(counts.sum())), 0)
    shares[np.argmax(shares)] += WHOLE - int(shares.sum())
    return shares


def chance(ones: int, total: int) -> int:
    """The frequency of a one when so many are expected among all.

    >>> chance(1, 4), chance(0, 4)
    (16384, 1)
    """
    return min(max((2 * WHOLE * ones + total) // (2 * total), 1), WHOLE - 1)


class Encoder:
    """Collects groups of symbols, then codes them all, the last first."""

    def __init__(self) -> None:
        self._groups: list[tuple[Array, Array]] = []
        self.information: dict[str, float] = {}
        """Bits of information added so far, by what they are about."""

    def add(self, about: str, starts: Array, shares: Array) -> None:
        """A group of symbols, by start and frequency."""
        bits = SCALE * len(shares) - float(np.log2(shares, dtype=np.float64).sum())
        self.information[about] = self.information.get(about, 0.0) + bits
        self._groups.append((starts.astype(np.uint64), shares.astype(np.uint64)))

    def add_bits(self, about: str, bits: Array, one: int) -> None:
        """A group of bits, of which a one has this frequency."""
        self.add(about, np.where(bits, 0, one), np.where(bits, one, WHOLE - one))

    def add_symbols(self, about: str, symbols: Array, shares: Array) -> None:
        """A group of symbols of a table of frequencies."""
        starts = np.cumsum(shares) - shares
        self.add(about, starts[symbols], shares[symbols])

    def add_pieces(self, about: str, numbers: Array, choices: int) -> None:
        """A group of numbers below `choices`, a power of two, that are all as likely."""
        share = WHOLE // choices
        self.add(about, numbers.astype(np.int64) * share, np.full(len(numbers), share))

    def finish(self, lanes: int) -> tuple[Array, Array]:
        """The lanes' first states, and all words."""
        state = np.full(lanes, LOW, np.uint64)
        words: list[Array] = []
        for starts, shares in reversed(self._groups):
            for begin in reversed(range(0, len(starts), lanes)):
                self._code(state, starts[begin : begin + lanes], shares[begin : begin + lanes], words)
        stream = np.concatenate(words[::-1]) if words else np.zeros(0, np.uint16)
        return state.astype(np.uint32), stream

    @staticmethod
    def _code(state: Array, start: Array, share: Array, words: list[Array]) -> None:
        x = state[: len(start)]
        full = x >= share << np.uint64(16)
        words.append(x[full].astype(np.uint16))
        x[full] >>= np.uint64(16)
        quotient, rest = np.divmod(x, share)
        x[:] = (quotient << np.uint64(SCALE)) + rest + start


class Decoder:
    """Reads groups of symbols in the order in which they were added."""

    def __init__(self, states: Array, words: Array) -> None:
        self._state, self._words, self._next = states.astype(np.uint64), words, 0

    def bits(self, count: int, one: int) -> Array:
        """A group of bits, of which a one has this frequency."""
        out = np.zeros(count, bool)
        for begin in range(0, count, len(self._state)):
            x = self._state[: count - begin]
            slot = x & np.uint64(WHOLE - 1)
            bit = slot < one
            out[begin : begin + len(x)] = bit
            share = np.where(bit, np.uint64(one), np.uint64(WHOLE - one))
            self._advance(x, share, slot - np.where(bit, np.uint64(0), np.uint64(one)))
        return out

    def symbols(self, count: int, shares: Array) -> Array:
        """A group of symbols of a table of frequencies."""
        symbol_of = np.repeat(np.arange(len(shares)), shares)
        starts, sizes = (np.cumsum(shares) - shares).astype(np.uint64), shares.astype(np.uint64)
        out = np.zeros(count, np.int64)
        for begin in range(0, count, len(self._state)):
            x = self._state[: count - begin]
            slot = x & np.uint64(WHOLE - 1)
            symbol = symbol_of[slot]
            out[begin : begin + len(x)] = symbol
            self._advance(x, sizes[symbol], slot - starts[symbol])
        return out

    def pieces(self, count: int, choices: int) -> Array:
        """A group of numbers below `choices`, a power of two, that are all as likely."""
        out, share = np.zeros(count, np.uint64), np.uint64(WHOLE // choices)
        for begin in range(0, count, len(self._state)):
            x = self._state[: count - begin]
            slot = x & np.uint64(WHOLE - 1)
            out[begin : begin + len(x)] = slot // share
            self._advance(x, np.full(len(x), share), slot % share)
        return out

    def finish(self) -> None:
        """Raises ValueError unless everything was read and nothing is left over."""
        if self._next != len(self._words) or (self._state != LOW).any():
            raise ValueError("the stream does not end where its symbols do")

    def _advance(self, x: Array, share: Array, offset: Array) -> None:
        x[:] = share * (x >> np.uint64(SCALE)) + offset
        empty = np.flatnonzero(x < LOW)
        taken = self._words[self._next : self._next + len(empty)]
        if len(taken) < len(empty):
            raise ValueError("the stream ends too early")
        x[empty] = (x[empty] << np.uint64(16)) | taken
        self._next += len(empty)
