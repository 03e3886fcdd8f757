"""Codes the masks of *.sg files: the live rows and columns, and the kept elements among them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ..cost import position_entropy
from ..types import Array, Shape
from .bytestream import ByteReader, varint
from .live_flags import INDICES, LiveFlagsReader, LiveFlagsSide, LiveFlagsWriter
from .rans import Decoder, Encoder, chance
from .sorted_masks import MAX_CELLS, MAX_ROWS, add_sorted, is_sorted, read_sorted


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
