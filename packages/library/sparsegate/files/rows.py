"""The format rows: a count for every row and a column for every kept element."""

from __future__ import annotations

from math import prod

import numpy as np

from .cost import Cost
from .format import Array, Elements, Encoded, Format, Plan, taken, taken_values


class Rows(Format):
    """Stores compressed rows, as sparse matrix libraries use them."""

    name = "rows"
    parts = ("values", "counts", "columns")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, their columns, and the rows' counts."""
        rows, columns = _matrix(elements.shape)
        indices = rows * _whole(columns).itemsize + elements.num_kept * _whole(columns - 1).itemsize
        return Cost(values=8 * elements.bits.itemsize * elements.num_kept, indices=8 * indices)

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements, row by row, with the counts and the columns."""
        rows, columns = _matrix(elements.shape)
        row, column = np.divmod(elements.positions, max(1, columns))
        counts = np.bincount(row, minlength=rows).astype(_whole(columns))
        return Encoded(
            {
                "values": elements.values,
                "counts": counts,
                "columns": column.astype(_whole(columns - 1)),
            }
        )

    def check(self, plan: Plan, parts: dict[str, Array], dtype: str) -> None:
        """Looks whether columns rise within their rows."""
        rows, columns = _matrix(plan.shape)
        taken_values(plan, parts, dtype)
        counts = taken(parts, "counts", str(_whole(columns)), rows)
        column = taken(parts, "columns", str(_whole(columns - 1)), plan.kept)
        if (counts > columns).any() or counts.sum(dtype=np.int64) != plan.kept:
            raise ValueError(f"counts sum to {counts.sum(dtype=np.int64)}, wanted {plan.kept}")
        if plan.kept and (column.max() >= columns or (np.diff(_positions(plan, parts)) <= 0).any()):
            raise ValueError("columns do not rise within their rows, or lie outside")

    def write_(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Puts the values into their rows and columns."""
        out[:] = 0
        if plan.kept:
            out[_positions(plan, parts)] = parts["values"]


def _positions(plan: Plan, parts: dict[str, Array]) -> Array:
    rows, columns = _matrix(plan.shape)
    positions: Array = np.repeat(np.arange(rows) * columns, parts["counts"].astype(np.int64))
    return positions + parts["columns"].astype(np.int64)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _whole(largest: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds this number."""
    return np.min_scalar_type(max(0, largest))
