"""Holds the weights of a layer without their zeros, in less memory than the dense array."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
WORTH = 0.9
"""Share of the dense array's memory from which the dense array is kept instead."""


class KeptArray:
    """An array of float32 that stores its nonzero elements, and where they are.

    >>> array = KeptArray.of(np.float32([[0, 2, 0], [0, 0, 3]]))
    >>> array.shape, array.num_kept, np.asarray(array).tolist()
    ((2, 3), 2, [[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])

    Positions are 32-bit numbers or bits, whichever takes less memory.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, shape: tuple[int, ...], values: Floats, where: NDArray[Any]) -> None:
        self.shape, self.values, self.where = shape, values, where

    @classmethod
    def of(cls, array: Floats) -> KeptArray:
        """An array without its zeros."""
        flat = np.ascontiguousarray(array, np.float32).reshape(-1)
        positions = np.flatnonzero(flat)
        return cls.at(array.shape, positions, flat[positions])

    @classmethod
    def at(cls, shape: tuple[int, ...], where: NDArray[Any], values: Floats) -> KeptArray:
        """An array with these values where a mask of all elements says, and zeros elsewhere.

        Positions, which rise, may stand for the mask.
        """
        size = prod(shape)
        if where.dtype == bool and 32 * len(values) > size:
            return cls(shape, values, np.packbits(where))
        positions = np.flatnonzero(where) if where.dtype == bool else where
        if 32 * len(positions) <= size and size < 2**32:
            return cls(shape, values, positions.astype(np.uint32))
        mask = np.zeros(size, bool)
        mask[positions] = True
        return cls(shape, values, np.packbits(mask))

    @property
    def size(self) -> int:
        """The number of elements, zeros included."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def num_kept(self) -> int:
        """The number of elements that are stored."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.values.nbytes + self.where.nbytes

    @property
    def positions(self) -> Indices:
        """Where the kept elements are, in the usual order."""
        if self.where.dtype == np.uint32:
            return self.where.astype(np.int64)
        return np.flatnonzero(np.unpackbits(self.where, count=self.size))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The dense array."""
        if copy is False:
            raise ValueError("an array without its zeros becomes a dense one by a copy only")
        made = np.zeros(self.size, np.float32)
        if self.where.dtype == np.uint32:
            made[self.where] = self.values
        else:
            made[np.unpackbits(self.where, count=self.size).view(bool)] = self.values
        return made.reshape(self.shape).astype(dtype or np.float32, copy=False)


Matrix = Floats | KeptArray
"""Weights of a layer, with or without their zeros."""


def smaller(array: KeptArray) -> Matrix:
    """The array itself, or the dense one if that takes about as little memory."""
    if array.num_kept == array.size:
        return array.values.reshape(array.shape)
    return np.asarray(array) if array.nbytes >= WORTH * 4 * array.size else array


def num_kept(weight: Any) -> int:
    """The number of elements of a weight that are not zero."""
    if isinstance(weight, KeptArray):
        return weight.num_kept
    return int(np.count_nonzero(weight))


def entries(weight: Any) -> tuple[Indices, Indices, Floats]:
    """Row, column and value of nonzero elements; columns count all dimensions but the first."""
    columns = weight.size // max(1, len(weight))
    if isinstance(weight, KeptArray):
        row, column = np.divmod(weight.positions, max(1, columns))
        return row, column, weight.values
    flat = weight.reshape(-1)
    kept = np.flatnonzero(flat)
    return *np.divmod(kept, max(1, columns)), flat[kept]
