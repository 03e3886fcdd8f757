"""Codes which rows or columns of a matrix are live in *.sg files; tensors may share flags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cost import position_entropy
from ..types import Array
from .bytestream import ByteReader, varint
from .rans import Decoder, Encoder, chance

ALL, STREAM, LAST, KNOWN = 0, 1, 2, 3
"""How flags are stored: `KNOWN + n` refers to vector `n` of the file."""
INDICES = "indices"


class LiveFlagsWriter:
    """Writes flags, and refers to flags that it has written before."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: list[Array] = []

    def candidates(self, live: Array) -> list[tuple[float, Array]]:
        """Flags that include all live lines, each with the bits it costs to write them."""
        free = [np.ones_like(live), _last(len(live), len(live) - int(np.argmax(live)))]
        free += [known for known in self._fitting(len(live)) if not (live & ~known).any()]
        exact = (position_entropy(len(live), int(live.sum())), live)
        return [*((0.0, flags) for flags in free), exact]

    def add(self, flags: Array) -> bytes:
        """Adds flags to the stream, if need be; returns their side information."""
        live, length = int(flags.sum()), len(flags)
        if live == length:
            return b"" if length == 1 else varint(ALL)
        for number, known in enumerate(self._known):
            if length % len(known) == 0 and np.array_equal(_repeated(known, length), flags):
                return varint(KNOWN + number)
        self._known.append(flags)
        if np.array_equal(flags, _last(length, live)):
            return varint(LAST) + varint(live)
        self._encoder.add_bits(INDICES, flags, chance(live, length))
        return varint(STREAM) + varint(live)

    def _fitting(self, length: int) -> list[Array]:
        return [_repeated(known, length) for known in self._known if length % len(known) == 0]


@dataclass(frozen=True)
class LiveFlagsSide:
    """The side information of one vector of flags."""

    length: int
    how: int
    num_live: int


class LiveFlagsReader:
    """Reads flags in two passes: the side information of all tensors, then the flags."""

    def __init__(self) -> None:
        self._known_sides: list[LiveFlagsSide] = []
        self._known: list[Array] = []

    def side(self, reader: ByteReader, length: int) -> LiveFlagsSide:
        """Reads the side information of `length` flags."""
        how = reader.varint(KNOWN + len(self._known_sides) - 1) if length > 1 else ALL
        if how >= KNOWN:
            return self._known_side(self._known_sides[how - KNOWN], how, length, reader.position)
        side = LiveFlagsSide(length, how, length if how == ALL else reader.varint(length - 1))
        if side.num_live == 0:
            raise ValueError(
                f"a tensor keeps elements in no row or column, before byte {reader.position}"
            )
        if how != ALL:
            self._known_sides.append(side)
        return side

    def flags(self, decoder: Decoder, side: LiveFlagsSide) -> Array:
        """Reads the flags."""
        if side.how == ALL:
            return np.ones(side.length, bool)
        if side.how >= KNOWN:
            return _repeated(self._known[side.how - KNOWN], side.length)
        if side.how == STREAM:
            flags = decoder.bits(side.length, chance(side.num_live, side.length))
        else:
            flags = _last(side.length, side.num_live)
        if int(flags.sum()) != side.num_live:
            raise ValueError(f"flags must have {side.num_live} ones, got {int(flags.sum())}")
        self._known.append(flags)
        return flags

    @staticmethod
    def _known_side(known: LiveFlagsSide, how: int, length: int, position: int) -> LiveFlagsSide:
        if length % known.length:
            raise ValueError(
                f"{length} flags refer to {known.length}, which does not fit, "
                f"before byte {position}"
            )
        return LiveFlagsSide(length, how, known.num_live * (length // known.length))


def _last(length: int, num_live: int) -> Array:
    return np.arange(length) >= length - num_live


def _repeated(flags: Array, length: int) -> Array:
    """Every flag for as many neighbors as make `length` flags."""
    return np.repeat(flags, length // len(flags))
