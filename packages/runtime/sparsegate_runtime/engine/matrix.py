"""Lays out sparse matrices for the kernels: rows in blocks of columns, or slices of eight rows."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

LANES = 16
SIDE_BY_SIDE = 8
NEAR = 24 * 1024
"""Bytes of input that a block of columns may touch: they stay in the first-level cache."""
NUM_SETS, FEW = 64, 6
"""Sets of the first-level cache, and how many of the eight lines of a set may be taken."""
WORTH = 8.0
"""Weights that a row should have in a block. With fewer, loading and storing sums costs more."""

POINTER, LONG = ctypes.c_void_p, ctypes.c_int64


class CRows(ctypes.Structure):
    """`Rows` of chain.h."""

    _fields_ = (("num_blocks", LONG), ("start", POINTER), ("offset", POINTER), ("value", POINTER))


class CSlices(ctypes.Structure):
    """`Slices` of chain.h."""

    _fields_ = (
        ("num_slices", LONG),
        ("start", POINTER),
        ("row", POINTER),
        ("column", POINTER),
        ("value", POINTER),
    )


class CPanels(ctypes.Structure):
    """`Panels` of engine.h."""

    _fields_ = (
        ("num_panels", LONG),
        ("rows", LONG),
        ("num_blocks", LONG),
        ("start", POINTER),
        ("row", POINTER),
        ("column", POINTER),
        ("value", POINTER),
    )


@dataclass(frozen=True)
class Weights:
    """The kept weights of a layer: row, column and value of each, and the number of rows."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float32]
    num_rows: int

    @property
    def before_row(self) -> NDArray[np.int64]:
        """The number of weights before each row, and of all weights."""
        counts = np.bincount(self.row, minlength=self.num_rows)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(frozen=True)
class Rows:
    """Weights sorted by block of columns, then row, with the offsets of their inputs in a tile."""

    start: NDArray[np.int32]
    offset: NDArray[np.int32]
    value: NDArray[np.float32]

    @classmethod
    def of(cls, weights: Weights, offset: NDArray[np.int64], block: NDArray[np.int64]) -> Rows:
        """Groups weights by their block."""
        num_blocks = int(block.max(initial=0)) + 1
        order = _by_block(weights.row, offset, block)
        counts = np.bincount(
            block * weights.num_rows + weights.row, minlength=num_blocks * weights.num_rows
        )
        ends = np.concatenate([[0], np.cumsum(counts)])
        indices = np.arange(num_blocks)[:, None] * weights.num_rows + np.arange(
            weights.num_rows + 1
        )
        return cls(
            ends[indices].astype(np.int32), offset[order].astype(np.int32), weights.value[order]
        )

    def as_c(self) -> CRows:
        """Pointers into these arrays, which must outlive them."""
        return CRows(
            len(self.start), self.start.ctypes.data, self.offset.ctypes.data, self.value.ctypes.data
        )


def _by_block(
    row: NDArray[np.int64], offset: NDArray[np.int64], block: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The order by block, row and offset; fast for weights that come by row and offset."""
    down = row[1:] < row[:-1]
    if np.any(down | ((row[1:] == row[:-1]) & (offset[1:] < offset[:-1]))):
        return np.lexsort((offset, row, block))
    few = block.astype(np.uint16) if block.max(initial=0) < 2**16 else block
    return np.argsort(few, kind="stable")


@dataclass(frozen=True)
class Slices:
    """Weights of eight rows next to each other. Rows of similar length share a slice."""

    start: NDArray[np.int32]
    row: NDArray[np.int32]
    column: NDArray[np.uint16]
    value: NDArray[np.float32]

    @classmethod
    def of(cls, weights: Weights) -> Slices:
        """Sorts the rows by length, then lays out every slice step by step."""
        before = weights.before_row
        longest_first = np.argsort(-np.diff(before), kind="stable")
        num_slices = -(-weights.num_rows // SIDE_BY_SIDE)
        row = np.full(num_slices * SIDE_BY_SIDE, -1, np.int32)
        row[: weights.num_rows] = longest_first
        steps = np.diff(before)[longest_first[::SIDE_BY_SIDE]]
        start = np.concatenate([[0], np.cumsum(steps)])
        seat = np.empty(weights.num_rows, np.int64)
        seat[longest_first] = np.arange(weights.num_rows)
        order = np.lexsort((weights.column, weights.row))
        sorted_row = weights.row[order]
        step = start[seat[sorted_row] // SIDE_BY_SIDE] + np.arange(len(order)) - before[sorted_row]
        index = step * SIDE_BY_SIDE + seat[sorted_row] % SIDE_BY_SIDE
        column, value = (
            np.zeros(start[-1] * SIDE_BY_SIDE, np.uint16),
            np.zeros(start[-1] * SIDE_BY_SIDE, np.float32),
        )
        column[index], value[index] = weights.column[order], weights.value[order]
        return cls(start.astype(np.int32), row, column, value)

    def as_c(self) -> CSlices:
        """Pointers into these arrays, which must outlive them."""
        arrays = (self.start, self.row, self.column, self.value)
        return CSlices(len(self.start) - 1, *(array.ctypes.data for array in arrays))


PANEL_ROWS, PANEL_COLUMNS = 256, 128
"""Most rows of a panel, whose sums stay near, and columns of a block, which fill registers."""


@dataclass(frozen=True)
class Panels:
    """Panels of rows in blocks of 128 columns, by slices of sixteen rows; `Panels` of engine.h.

    A weight takes five bytes. Within each block the rows are sorted by their number of weights, so
    that slices hardly need zeros to fill their steps.
    """

    height: int
    num_blocks: int
    start: NDArray[np.int32]
    row: NDArray[np.uint16]
    column: NDArray[np.uint8]
    value: NDArray[np.float32]

    @classmethod
    def of(cls, weights: Weights, num_columns: int) -> Panels:
        """Sorts the rows of every panel and block, then lays out every slice step by step."""
        num_panels = max(1, -(-weights.num_rows // PANEL_ROWS))
        height = max(LANES, -(-weights.num_rows // (num_panels * LANES)) * LANES)
        num_panels = max(1, -(-weights.num_rows // height))
        num_blocks = max(1, -(-num_columns // PANEL_COLUMNS))
        panel, inner = np.divmod(weights.row, height)
        cell = ((panel * num_blocks + weights.column // PANEL_COLUMNS) * height + inner).astype(
            np.int64
        )
        counts = np.bincount(cell, minlength=num_panels * num_blocks * height)
        by_block = counts.reshape(-1, height)
        longest_first = np.argsort(-by_block, axis=1, kind="stable")
        seat = np.empty_like(longest_first)
        np.put_along_axis(seat, longest_first, np.arange(height)[None], axis=1)
        steps = np.take_along_axis(by_block, longest_first, axis=1)[:, ::LANES]
        start = np.concatenate([[0], np.cumsum(steps)])
        first = (np.arange(len(by_block))[:, None] * height + seat).reshape(-1)
        column, value = (np.zeros(start[-1] * LANES, kind) for kind in (np.uint8, np.float32))
        order = np.argsort(cell, kind="stable")
        cell = cell[order]
        rank = np.arange(len(cell)) - (np.cumsum(counts) - counts)[cell]
        index = (start[first[cell] // LANES] + rank) * LANES + first[cell] % LANES
        column[index] = weights.column[order] % PANEL_COLUMNS
        value[index] = weights.value[order]
        whole = np.arange(num_panels)[:, None, None] * height + longest_first.reshape(
            num_panels, num_blocks, height
        )
        row = np.where(whole < weights.num_rows, whole % height, height).astype(np.uint16)
        return cls(height, num_blocks, start.astype(np.int32), row.reshape(-1), column, value)

    def as_c(self) -> CPanels:
        """Pointers into these arrays, which must outlive them."""
        arrays = (self.start, self.row, self.column, self.value)
        num_panels = len(self.row) // (self.height * self.num_blocks)
        pointers = (array.ctypes.data for array in arrays)
        return CPanels(num_panels, self.height, self.num_blocks, *pointers)


def vector_scratch(num_columns: int) -> int:
    """Floats of scratch memory for a product with one vector: `sg_vector_scratch` of engine.h.

    >>> vector_scratch(130)
    528
    """
    return -(-num_columns // PANEL_COLUMNS) * PANEL_COLUMNS + PANEL_ROWS + LANES


@cache
def most_near() -> int:
    """Bytes of input that a block may touch on this processor: most of its first-level cache."""
    name = "SC_LEVEL1_DCACHE_SIZE"
    known = os.sysconf(name) if name in getattr(os, "sysconf_names", ()) else 0
    return max(NEAR, known * 5 // 6)


def columns_in_block(
    num_weights: int, num_rows: int, num_columns: int, bytes_each: int, near: int = NEAR
) -> int:
    """Columns (or channels) of a block: few enough for the cache, enough for its overhead.

    >>> columns_in_block(num_weights=4096 * 410, num_rows=4096, num_columns=4096, bytes_each=64)
    384
    """
    worth = WORTH * num_rows * num_columns / max(num_weights, 1)
    return int(min(num_columns, max(near / bytes_each, worth, 1)))


@cache
def spread(height: int, width: int, patch: tuple[int, int], channels: int) -> tuple[int, int]:
    """Pads an image, height by width in cache lines, so that a patch does not crowd one cache set.

    A cache puts every 64th line into the same set of eight lines. The channels of an image of 16
    by 16 lines would all begin in one set.

    >>> spread(16, 16, (4, 9), channels=15)
    (17, 17)
    """
    sizes = [(height + down, width + across) for down in range(4) for across in range(3)]
    return min(sizes, key=lambda size: (max(_fullest(size, patch, channels), FEW), prod(size)))


def _fullest(size: tuple[int, int], patch: tuple[int, int], channels: int) -> int:
    first = prod(size) * np.arange(channels)[:, None, None]
    lines = first + size[1] * np.arange(patch[0])[:, None] + np.arange(patch[1])
    return int(np.bincount(lines.reshape(-1) % NUM_SETS).max(initial=0))
