"""Stores the weights of a layer row by row: kept weights with their distances, or all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FARTHEST = 255
"""The largest distance of one byte; a zero is stored where two weights lie farther apart."""
MOST_SUM = 2**31 - 1
MOST_BIAS = 2**30


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The weights of a layer as arrays for C."""

    value: NDArray[np.generic]
    step: NDArray[np.uint8] | None
    """How far each weight lies from the one before; None if every weight is stored."""
    count: NDArray[np.int64] | None
    size: int
    """Weights of a row, if every one is stored."""

    @property
    def most(self) -> int:
        """The number of weights in the longest row."""
        return self.size if self.count is None else int(self.count.max(initial=0))


def rows_of(matrix: NDArray[np.generic], *, first: int) -> StoredRows:
    """The smaller of the two ways to store a matrix.

    >>> found = rows_of(np.array([[0, 0, 5, 0], [0, 0, 0, 0], [7, 0, 0, 9]], np.int8), first=0)
    >>> found.value, found.step, found.count
    (array([5, 7, 9], dtype=int8), array([2, 0, 3], dtype=uint8), array([1, 0, 2]))

    Args:
        matrix: one row for each output.
        first: the distance of a weight in the first column.

    """
    sparse = _sparse(matrix, first)
    width = matrix.dtype.itemsize
    bytes_sparse = len(sparse.value) * (width + 1) + len(matrix) * (2 if sparse.most > 255 else 1)
    if bytes_sparse < matrix.size * width:
        return sparse
    return StoredRows(matrix.reshape(-1), None, None, matrix.shape[1])


def _sparse(matrix: NDArray[np.generic], first: int) -> StoredRows:
    values, steps, counts = [], [], []
    for row in matrix:
        places = np.flatnonzero(row)
        before = np.concatenate([[-first], places[:-1]]) if len(places) else places
        gaps = places - before
        fill = np.maximum(gaps - 1, 0) // FARTHEST  # zeros before each weight
        ends = np.cumsum(fill + 1) - 1
        step = np.full(int((fill + 1).sum()), FARTHEST, np.uint8)
        value = np.zeros(len(step), matrix.dtype)
        step[ends] = gaps - fill * FARTHEST
        value[ends] = row[places]
        steps.append(step)
        values.append(value)
        counts.append(len(step))
    return StoredRows(np.concatenate(values), np.concatenate(steps), np.array(counts), 0)


@dataclass(frozen=True, eq=False)
class Rounded:
    """A matrix in 8 bits: each row in steps of its own."""

    matrix: NDArray[np.int8]
    step: NDArray[np.float64]


def rounded(matrix: NDArray[np.float32], least: NDArray[np.float64] | None = None) -> Rounded:
    """Rounds each row to 8 bits, in steps of its largest weight divided by 127, or larger ones.

    >>> rounded(np.array([[1.27, -0.5], [0, 0]], np.float32)).matrix
    array([[127, -50],
           [  0,   0]], dtype=int8)
    """
    step = np.abs(matrix.astype(np.float64)).max(axis=1, initial=0) / 127
    step = step if least is None else np.maximum(step, least)
    step[step == 0] = 1.0
    return Rounded(np.rint(matrix / step[:, None]).astype(np.int8), step)


def factor_and_shift(scale: float) -> tuple[int, int]:
    """Two integers such that the scale is factor / 2^shift.

    >>> factor_and_shift(0.5)
    (1073741824, 31)
    """
    shift = 30 - int(np.floor(np.log2(scale)))
    if shift < 1:
        raise ValueError(f"the scale {scale:g} is too large for 8 bits; export fp32")
    if shift > 62:
        return 0, 1
    factor = round(scale * 2.0**shift)
    return (factor, shift) if factor < 2**31 else (factor // 2, shift - 1)
