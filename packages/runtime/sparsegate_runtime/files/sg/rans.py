"""An entropy coder: interleaved rANS, so that numpy codes thousands of symbols at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparsegate_runtime.kernels import KERNELS

from ..types import Array
from .rans_in_c import InC

SCALE = 16
WHOLE = 1 << SCALE
"""The sum of all frequencies."""
BLOCK = 1 << 18
"""Symbols that are prepared at a time."""
MAX_ROUNDS = 1 << 18
"""The most symbols of a lane, so that a short file cannot keep the decoder busy for hours."""
LOW = 1 << 16
"""States lie in [LOW, LOW << 16)."""
Cut = Callable[[Array], Array]
"""Makes symbols from numbers, a block at a time: that saves a copy of all of them."""


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
    """The frequency of a one, with `ones` expected among `total` bits.

    >>> chance(1, 4), chance(0, 4)
    (16384, 1)
    """
    return min(max((2 * WHOLE * ones + total) // (2 * total), 1), WHOLE - 1)


def same(numbers: Array) -> Array:
    """The numbers themselves."""
    return numbers


def count_symbols(numbers: Array, choices: int, cut: Cut = same) -> Array:
    """How often each of `choices` symbols occurs in numbers.

    >>> count_symbols(np.array([2, 0, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    counts = np.zeros(choices, np.int64)
    for begin in range(0, len(numbers), BLOCK):
        counts += np.bincount(cut(numbers[begin : begin + BLOCK]), minlength=choices)
    return counts


@dataclass(frozen=True)
class _Group:
    """Symbols to be coded with one table of starts and frequencies, a block at a time."""

    count: int
    symbols: Callable[[int, int], Array]
    """The symbols from a begin to an end."""
    starts: Array
    shares: Array


class Encoder:
    """Collects groups of symbols, then codes them, the last group first."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self.information: dict[str, float] = {}
        """Bits added so far, by what they store."""
        self.num_symbols = 0
        """Number of symbols added so far."""

    def add_bits(self, about: str, bits: Array, one: int) -> None:
        """Adds a group of bits; `one` is the frequency of a one."""
        packed, ones = np.packbits(bits), int(np.count_nonzero(bits))

        def unpacked(begin: int, end: int) -> Array:
            return np.unpackbits(packed[begin // 8 : -(-end // 8)])[begin % 8 :][: end - begin]

        self._note(about, np.array([len(bits) - ones, ones]), np.array([WHOLE - one, one]))
        self._add(len(bits), unpacked, np.array([one, 0]), np.array([WHOLE - one, one]))

    def add_symbols(self, about: str, numbers: Array, shares: Array, *, cut: Cut = same) -> None:
        """Adds a group of symbols with these frequencies, which `cut` makes from numbers."""
        counts = count_symbols(numbers, len(shares), cut)
        self._note(about, counts, shares)
        self._add(
            len(numbers),
            lambda begin, end: cut(numbers[begin:end]),
            np.cumsum(shares) - shares,
            shares,
        )

    def add_pieces(self, about: str, numbers: Array, choices: int, *, cut: Cut = same) -> None:
        """Adds a group of numbers below `choices`, a power of two, that are all as likely."""
        share = WHOLE // choices
        self._note(about, np.array([len(numbers)]), np.array([share]))
        starts, shares = np.arange(choices) * share, np.full(choices, share)
        self._add(len(numbers), lambda begin, end: cut(numbers[begin:end]), starts, shares)

    def finish(self, lanes: int) -> tuple[Array, list[Array]]:
        """Codes everything; returns the first state of every lane, and all words in pieces."""
        state = np.full(lanes, LOW, np.uint64)
        words: list[Array] = []
        block = lanes * max(1, BLOCK // lanes)
        while self._groups:
            group = self._groups.pop()  # frees its memory
            for begin in reversed(range(0, group.count, block)):
                symbols = group.symbols(begin, min(begin + block, group.count))
                self._code_block(state, group.starts[symbols], group.shares[symbols], words)
        return state.astype(np.uint32), words[::-1]

    def _note(self, about: str, counts: Array, shares: Array) -> None:
        used = counts > 0
        bits = float((counts[used] * (SCALE - np.log2(shares[used], dtype=np.float64))).sum())
        self.information[about] = self.information.get(about, 0.0) + bits

    def _add(
        self, count: int, symbols: Callable[[int, int], Array], starts: Array, shares: Array
    ) -> None:
        self.num_symbols += count
        self._groups.append(
            _Group(count, symbols, starts.astype(np.uint64), shares.astype(np.uint64))
        )

    @staticmethod
    def _code_block(state: Array, starts: Array, shares: Array, words: list[Array]) -> None:
        found: list[Array] = []
        for begin in reversed(range(0, len(starts), len(state))):
            start, share = starts[begin : begin + len(state)], shares[begin : begin + len(state)]
            x = state[: len(start)]
            full = x >= share << np.uint64(16)
            found.append(x[full].astype("<u2"))
            x[full] >>= np.uint64(16)
            quotient, rest = np.divmod(x, share)
            x[:] = (quotient << np.uint64(SCALE)) + rest + start
        words.append(np.concatenate(found[::-1]))


class Decoder:
    """Reads groups of symbols in the order in which they were added."""

    def __init__(self, states: Array, words: Array) -> None:
        self._state, self._words, self._next = states.astype(np.uint64), words, 0
        self._rounds_left = MAX_ROUNDS
        self._in_c = InC(self._state, words) if KERNELS is not None else None

    def bits(self, count: int, one: int) -> Array:
        """The next group of bits; `one` is the frequency of a one."""
        self._take_rounds(count)
        if self._in_c is not None:
            found, self._next = self._in_c.bits(self._next, count, one)
            return found
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
        """The next group of symbols with these frequencies."""
        self._take_rounds(count)
        if self._in_c is not None:
            found, self._next = self._in_c.symbols(self._next, count, shares)
            return found
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

    def symbol(self, starts: Sequence[int]) -> int:
        """The next symbol, a group by itself; the last of the starts is 65536."""
        slot = int(self._state[0]) & (WHOLE - 1)
        found = bisect_right(starts, slot) - 1
        share = np.array([starts[found + 1] - starts[found]], np.uint64)
        self._advance(self._state[:1], share, np.array([slot - starts[found]], np.uint64))
        return found

    def pieces(self, count: int, choices: int) -> Array:
        """The next group of numbers below `choices`, a power of two, that are all as likely."""
        self._take_rounds(count)
        if self._in_c is not None:
            found, self._next = self._in_c.pieces(self._next, count, choices)
            return found
        out, share = np.zeros(count, np.uint64), np.uint64(WHOLE // choices)
        for begin in range(0, count, len(self._state)):
            x = self._state[: count - begin]
            slot = x & np.uint64(WHOLE - 1)
            out[begin : begin + len(x)] = slot // share
            self._advance(x, np.full(len(x), share), slot % share)
        return out

    @property
    def is_in_c(self) -> bool:
        """Whether C decodes."""
        return self._in_c is not None

    def split(self, count: int, shares: Array) -> Array:
        """The next numbers of 32 bits, rotated right by one: three groups, the upper byte first."""
        assert self._in_c is not None
        for _ in range(3):
            self._take_rounds(count)
        found, self._next = self._in_c.split(self._next, count, shares)
        return found

    def finish(self) -> None:
        """Raises ValueError unless the stream ends here."""
        if self._next != len(self._words) or (self._state != LOW).any():
            raise ValueError("the stream does not end where its symbols do")

    def _take_rounds(self, count: int) -> None:
        self._rounds_left -= count // len(self._state)
        if self._rounds_left < 0:
            raise ValueError(f"{len(self._state)} lanes are too few for so many symbols")

    def _advance(self, x: Array, share: Array, offset: Array) -> None:
        x[:] = share * (x >> np.uint64(SCALE)) + offset
        empty = np.flatnonzero(x < LOW)
        taken = self._words[self._next : self._next + len(empty)]
        if len(taken) < len(empty):
            raise ValueError("the stream ends too early")
        x[empty] = (x[empty] << np.uint64(16)) | taken
        self._next += len(empty)
