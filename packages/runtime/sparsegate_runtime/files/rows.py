"""The format rows: a count for every row, and a column for every kept element."""

from __future__ import annotations

from math import prod

import numpy as np

from .cost import Cost
from .format import Description, Elements, Encoded, Format, part_of, values_of
from .types import Array, Shape


class RowsFormat(Format):
    """Stores compressed sparse rows, with counts instead of pointers."""

    name = "rows"
    parts = ("values", "counts", "columns")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, their columns, and the rows' counts."""
        rows, columns = _matrix(elements.shape)
        counts_bytes = rows * _unsigned(columns).itemsize
        columns_bytes = elements.num_kept * _unsigned(columns - 1).itemsize
        values = 8 * elements.bits.itemsize * elements.num_kept
        return Cost(values=values, indices=8 * (counts_bytes + columns_bytes))

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements, row by row, with the counts and the columns."""
        rows, columns = _matrix(elements.shape)
        row, column = np.divmod(elements.positions, max(1, columns))
        counts = np.bincount(row, minlength=rows).astype(_unsigned(columns))
        narrow = column.astype(_unsigned(columns - 1))
        return Encoded({"values": elements.values, "counts": counts, "columns": narrow})

    def check(self, description: Description, parts: dict[str, Array], dtype: str) -> None:
        """Checks the counts, and that columns rise within their rows."""
        rows, columns = _matrix(description.shape)
        values_of(description, parts, dtype)
        counts = part_of(parts, "counts", str(_unsigned(columns)), rows)
        column = part_of(parts, "columns", str(_unsigned(columns - 1)), description.kept)
        if (counts > columns).any() or counts.sum(dtype=np.int64) != description.kept:
            raise ValueError(
                f"counts must be at most {columns} each and sum to {description.kept}, "
                f"got a sum of {counts.sum(dtype=np.int64)}"
            )
        if description.kept == 0:
            return
        if column.max() >= columns or (np.diff(_positions(description, parts)) <= 0).any():
            raise ValueError(f"columns must rise within each row and be below {columns}")

    def write_(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Writes the values to their rows and columns."""
        out[:] = 0
        if description.kept:
            out[_positions(description, parts)] = parts["values"]


def _positions(description: Description, parts: dict[str, Array]) -> Array:
    rows, columns = _matrix(description.shape)
    positions: Array = np.repeat(np.arange(rows) * columns, parts["counts"].astype(np.int64))
    return positions + parts["columns"].astype(np.int64)


def _matrix(shape: Shape) -> tuple[int, int]:
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _unsigned(largest: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds this number."""
    return np.min_scalar_type(max(0, largest))
