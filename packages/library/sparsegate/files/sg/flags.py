"""Which rows or columns of a matrix are live in .sg files, told once and referred to later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cost import position_entropy
from ..format import Array
from .bytestream import ByteReader, varint
from .rans import Decoder, Encoder, chance

ALL, STREAM, LAST, KNOWN = 0, 1, 2, 3  # and beyond: the number of the vector that is known
INDICES = "indices"


class FlagsWriter:
    """Writes flags, and refers to those that it has written before."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: list[Array] = []

    def candidates(self, live: Array) -> list[tuple[float, Array]]:
        """Flags that cover the live ones, with the bits they take: all, the last, those known, the live ones alone."""
        free = [np.ones_like(live), _last(len(live), len(live) - int(np.argmax(live)))]
        free += [each for each in self._spread(len(live)) if not (live & ~each).any()]
        return [
            *((0.0, each) for each in free),
            (position_entropy(len(live), int(live.sum())), live),
        ]

    def add(self, flags: Array) -> bytes:
        """Side information of flags; their bits go into the stream, unless they can be told without."""
        live, length = int(flags.sum()), len(flags)
        if live == length:
            return b"" if length == 1 else varint(ALL)
        for place, known in enumerate(self._known):
            if length % len(known) == 0 and np.array_equal(
                np.repeat(known, length // len(known)), flags
            ):
                return varint(KNOWN + place)
        self._known.append(flags)
        if np.array_equal(flags, _last(length, live)):
            return varint(LAST) + varint(live)
        self._encoder.add_bits(INDICES, flags, chance(live, length))
        return varint(STREAM) + varint(live)

    def _spread(self, length: int) -> list[Array]:
        fitting = [each for each in self._known if length % len(each) == 0]
        return [np.repeat(each, length // len(each)) for each in fitting]


@dataclass(frozen=True)
class FlagsSide:
    """What the side information says of flags."""

    length: int
    how: int
    live: int


class FlagsReader:
    """Reads flags in two passes: the side information of all tensors, then their bits."""

    def __init__(self) -> None:
        self._told: list[FlagsSide] = []
        self._known: list[Array] = []

    def side(self, reader: ByteReader, length: int) -> FlagsSide:
        """What is known of flags beforehand."""
        how = reader.varint(KNOWN + len(self._told) - 1) if length > 1 else ALL
        if how >= KNOWN:
            return self._known_side(self._told[how - KNOWN], how, length, reader.place)
        side = FlagsSide(length, how, length if how == ALL else reader.varint(length - 1))
        if side.live == 0:
            raise ValueError(f"elements are kept in no row or column, before byte {reader.place}")
        if how != ALL:
            self._told.append(side)
        return side

    def flags(self, decoder: Decoder, side: FlagsSide) -> Array:
        """The flags."""
        if side.how == ALL:
            return np.ones(side.length, bool)
        if side.how >= KNOWN:
            known = self._known[side.how - KNOWN]
            return np.repeat(known, side.length // len(known))
        stored = side.how == STREAM
        flags = (
            decoder.bits(side.length, chance(side.live, side.length))
            if stored
            else _last(side.length, side.live)
        )
        if int(flags.sum()) != side.live:
            raise ValueError(f"flags have {int(flags.sum())} ones, wanted {side.live}")
        self._known.append(flags)
        return flags

    @staticmethod
    def _known_side(known: FlagsSide, how: int, length: int, place: int) -> FlagsSide:
        if length % known.length:
            raise ValueError(
                f"{length} flags refer to {known.length}, which does not fit, before byte {place}"
            )
        return FlagsSide(length, how, known.live * (length // known.length))


def _last(length: int, live: int) -> Array:
    return np.arange(length) >= length - live
