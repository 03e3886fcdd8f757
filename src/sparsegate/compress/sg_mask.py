"""The masks of .sg files: live rows, live columns, and what is kept among them."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from .bytestream import ByteReader, varint
from .cost import position_entropy
from .format import Array
from .rans import Decoder, Encoder, chance

INDICES = "indices"
MaskSide = tuple[tuple[int, int], tuple[int, int], int]
"""Live rows and columns, each with the reference to their flags, and how many elements are kept."""


class FlagsWriter:
    """Writes flags, and refers to those that it has written before."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: list[Array] = []

    def candidates(self, live: Array) -> list[tuple[float, Array]]:
        """Flags that cover the live ones, with the bits they take: all, those that are known, the live ones alone."""
        known = [each for each in self._known if len(each) == len(live) and not (live & ~each).any()]
        free = [(0.0, np.ones_like(live)), *((0.0, each) for each in known)]
        return [*free, (position_entropy(len(live), int(live.sum())), live)]

    def add(self, flags: Array) -> bytes:
        """Side information of flags; their bits go into the stream, unless they are all alike or known."""
        live = int(flags.sum())
        if live in (0, len(flags)):
            return varint(live)
        for place, known in enumerate(self._known):
            if np.array_equal(known, flags):
                return varint(live) + varint(place + 1)
        self._known.append(flags)
        self._encoder.add_bits(INDICES, flags, chance(live, len(flags)))
        return varint(live) + varint(0)


def add_mask(encoder: Encoder, flags: FlagsWriter, mask: Array) -> bytes:
    """Side information of a matrix's mask, whose bits go into the stream."""
    kept = int(mask.sum())
    if kept == 0:
        return varint(0)
    rows, columns = _cheapest_cover(flags, mask, kept)
    side = flags.add(rows) + flags.add(columns) + varint(kept)
    inner = mask[np.ix_(rows, columns)].ravel()
    if kept < len(inner):
        encoder.add_bits(INDICES, inner, chance(kept, len(inner)))
    return side


def _cheapest_cover(flags: FlagsWriter, mask: Array, kept: int) -> tuple[Array, Array]:
    """The rows and columns among which the mask is told: leaving dead ones out pays only if their flags cost less."""
    live_rows, live_columns = (np.asarray(mask.any(axis=axis)) for axis in (1, 0))
    pairs = list(product(flags.candidates(live_rows), flags.candidates(live_columns)))
    costs = [
        rows_cost + columns_cost + position_entropy(int(rows.sum()) * int(columns.sum()), kept)
        for (rows_cost, rows), (columns_cost, columns) in pairs
    ]
    (_, rows), (_, columns) = pairs[int(np.argmin(costs))]
    return rows, columns


class MaskReader:
    """Reads masks in two passes: the side information of all tensors, then their bits."""

    def __init__(self) -> None:
        self._known: list[Array] = []

    def side(self, reader: ByteReader, shape: tuple[int, int]) -> MaskSide:
        """What is known of a matrix's mask beforehand: rows, columns (each live and reference) and kept."""
        rows = self._flags_side(reader, shape[0])
        if rows[0] == 0:
            return rows, (0, 0), 0
        columns = self._flags_side(reader, shape[1])
        if columns[0] == 0:
            raise ValueError(f"rows are live and columns are not, before byte {reader.place}")
        return rows, columns, reader.varint(rows[0] * columns[0])

    def bits(self, decoder: Decoder, shape: tuple[int, int], side: MaskSide) -> Array:
        """The numbers of the kept elements, rising."""
        rows, columns, kept = side
        live_rows = self._flags(decoder, shape[0], *rows)
        if not rows[0]:
            return np.zeros(0, np.int64)
        live_columns = self._flags(decoder, shape[1], *columns)
        size = rows[0] * columns[0]
        inner = np.ones(size, bool) if kept == size else decoder.bits(size, chance(kept, size))
        if int(inner.sum()) != kept:
            raise ValueError(f"a mask keeps {int(inner.sum())} elements, wanted {kept}")
        row, column = np.divmod(np.flatnonzero(inner), columns[0])
        return np.flatnonzero(live_rows)[row] * shape[1] + np.flatnonzero(live_columns)[column]

    @staticmethod
    def _flags_side(reader: ByteReader, length: int) -> tuple[int, int]:
        live = reader.varint(length)
        return live, reader.varint() if 0 < live < length else 0

    def _flags(self, decoder: Decoder, length: int, live: int, reference: int) -> Array:
        if live in (0, length):
            return np.full(length, live > 0)
        if reference:
            if reference > len(self._known) or len(self._known[reference - 1]) != length:
                raise ValueError(f"flags refer to vector {reference}, which does not fit")
            return self._known[reference - 1]
        flags = decoder.bits(length, chance(live, length))
        if int(flags.sum()) != live:
            raise ValueError(f"flags have {int(flags.sum())} ones, wanted {live}")
        self._known.append(flags)
        return flags


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor."""
    return (shape[0], prod(shape[1:])) if len(shape) >= 2 else (1, prod(shape))
