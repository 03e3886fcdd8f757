"""Codes the masks of *.sg files: the live rows and columns, and the kept elements among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import prod

import numpy as np

from ..cost import position_entropy
from ..types import Array, Shape
from .bytestream import ByteReader, varint
from .live_flags import INDICES, LiveFlagsReader, LiveFlagsSide, LiveFlagsWriter
from .rans import SCALE, WHOLE, Decoder, Encoder, chance


class MaskWriter:
    """Writes the masks of a file's tensors, one after the other."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._flags = encoder, LiveFlagsWriter(encoder)
        self._sorted_left = MAX_CELLS

    def add(self, mask: Array) -> bytes:
        """Adds the mask of a matrix, which keeps something; returns its side information."""
        kept = int(np.count_nonzero(mask))
        rows, columns = self._cheapest_cover(mask, kept)
        side = self._flags.add(rows) + self._flags.add(columns)
        inner = mask if rows.all() and columns.all() else mask[np.ix_(rows, columns)]
        by_order = self._can_be_sorted(inner) and is_sorted(inner)
        if by_order:
            self._sorted_left -= inner.size
        if kept < inner.size and by_order:
            add_sorted(self._encoder, INDICES, inner, chance(kept, inner.size))
        elif kept < inner.size:
            self._encoder.add_bits(INDICES, inner.ravel(), chance(kept, inner.size))
        return side + varint(2 * kept + by_order)

    def _can_be_sorted(self, inner: Array) -> bool:
        return 2 <= len(inner) <= MAX_ROWS and inner.size <= self._sorted_left

    def _cheapest_cover(self, mask: Array, kept: int) -> tuple[Array, Array]:
        """The rows and columns to call live. Excluding dead ones pays if their flags cost less."""
        live_rows, live_columns = np.asarray(mask.any(axis=1)), np.asarray(mask.any(axis=0))
        pairs = list(
            product(self._flags.candidates(live_rows), self._flags.candidates(live_columns))
        )
        costs = [
            rows_cost + columns_cost + position_entropy(int(rows.sum()) * int(columns.sum()), kept)
            for (rows_cost, rows), (columns_cost, columns) in pairs
        ]
        (_, rows), (_, columns) = pairs[int(np.argmin(costs))]
        return rows, columns


@dataclass(frozen=True)
class MaskSide:
    """The side information of one mask."""

    rows: LiveFlagsSide
    columns: LiveFlagsSide
    kept: int
    by_order: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Number of live rows and of live columns."""
        return self.rows.num_live, self.columns.num_live


class MaskReader:
    """Reads masks in two passes: the side information of all tensors, then the masks."""

    def __init__(self) -> None:
        self._flags = LiveFlagsReader()
        self._sorted_left = MAX_CELLS

    def side(self, reader: ByteReader, shape: tuple[int, int]) -> MaskSide:
        """Reads the side information of a matrix's mask."""
        if not prod(shape):
            raise ValueError(f"an empty tensor keeps elements, before byte {reader.position}")
        rows, columns = (self._flags.side(reader, length) for length in shape)
        size = rows.num_live * columns.num_live
        head = reader.varint(2 * size + 1)
        if head < 2:
            raise ValueError(f"a mask keeps nothing, before byte {reader.position}")
        if head & 1:
            self._sorted_left -= size
            if not 2 <= rows.num_live <= MAX_ROWS or self._sorted_left < 0:
                raise ValueError(
                    f"a mask of {rows.num_live} x {columns.num_live} is coded by order; this needs "
                    f"2 to {MAX_ROWS} rows, and at most {MAX_CELLS:,} cells in all masks together"
                )
        return MaskSide(rows, columns, head >> 1, bool(head & 1))

    def where(self, decoder: Decoder, side: MaskSide) -> Array:
        """Reads a mask; returns it flat, or the positions of the kept elements, rising."""
        rows = self._flags.flags(decoder, side.rows)
        columns = self._flags.flags(decoder, side.columns)
        size, one = prod(side.shape), chance(side.kept, prod(side.shape))
        if side.kept == size:
            inner = np.ones(size, bool)
        elif side.by_order:
            inner = read_sorted(decoder, side.shape, one).ravel()
        else:
            inner = decoder.bits(size, one)
        if (kept := int(np.count_nonzero(inner))) != side.kept:
            raise ValueError(f"a mask must keep {side.kept} elements, got {kept}")
        if rows.all() and columns.all():
            return inner
        positions = np.flatnonzero(inner)
        row, column = np.divmod(positions, side.columns.num_live)
        return np.flatnonzero(rows)[row] * len(columns) + np.flatnonzero(columns)[column]


def matrix_shape(shape: Shape) -> tuple[int, int]:
    """Rows and columns of the matrix as which an .sg file stores a tensor."""
    return (shape[0], prod(shape[1:])) if len(shape) >= 2 else (1, prod(shape))


MAX_ROWS = 512
MAX_CELLS = 2**19
"""The most cells of all such masks of a file. Decoding them is slow: one symbol at a time."""


def is_sorted(mask: Array) -> bool:
    """Whether every row, read as a binary number, is at least as large as the row above."""
    packed = [row.tobytes() for row in np.packbits(mask, axis=1)]
    return all(above <= below for above, below in pairwise(packed))


def add_sorted(encoder: Encoder, about: str, mask: Array, one: int) -> None:
    """Adds a mask with sorted rows.

    Among rows that are equal in all columns so far, those with a zero in the next column come
    first, so their number is enough.
    This saves the logarithm of the number of ways to order the rows.
    """

    def ones(begin: int, end: int, column: int) -> int:
        count = int(mask[begin:end, column].sum())
        encoder.add_symbols(about, np.array([count]), np.diff(count_starts(end - begin, one)))
        return count

    alone = _walk(mask.shape, ones)
    encoder.add_bits(about, mask[alone], one)


def read_sorted(decoder: Decoder, shape: tuple[int, int], one: int) -> Array:
    """Reads what `add_sorted` added."""
    mask = np.zeros(shape, bool)

    def ones(begin: int, end: int, column: int) -> int:
        count = decoder.symbol(count_starts(end - begin, one))
        mask[end - count : end, column] = True
        return count

    alone = _walk(shape, ones)
    mask[alone] = decoder.bits(int(alone.sum()), one)
    return mask


@lru_cache(maxsize=1024)
def count_starts(length: int, one: int) -> tuple[int, ...]:
    """The starts of the symbols 0 to `length`, the number of ones among `length` bits; then 65536.

    Their frequencies follow the binomial distribution.

    >>> count_starts(2, 32768)
    (0, 16384, 49152, 65536)
    """
    weight, room = (WHOLE - one) ** length, WHOLE - (length + 1)
    shares = []
    for count in range(length + 1):
        shares.append(1 + (weight * room >> SCALE * length))
        weight = weight * (length - count) * one // ((count + 1) * (WHOLE - one))  # exact
    shares[shares.index(max(shares))] += WHOLE - sum(shares)
    starts = [0]
    for share in shares:
        starts.append(starts[-1] + share)
    return tuple(starts)


def _walk(shape: tuple[int, ...], ones: Callable[[int, int, int], int]) -> Array:
    """Splits groups of equal rows, column by column; returns the cells of rows that are alone."""
    rows, columns = shape
    alone = np.zeros((rows, columns), bool)
    groups = [(0, rows)]
    for column in range(columns):
        halves = []
        for begin, end in groups:
            middle = end - ones(begin, end, column)
            halves += [(begin, middle), (middle, end)]
        for begin, end in halves:
            if end - begin == 1:
                alone[begin, column + 1 :] = True
        groups = [(begin, end) for begin, end in halves if end - begin >= 2]
    return alone
