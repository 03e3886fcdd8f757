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
        return Encoded({"values": elements.values, "counts": counts, "columns": column.astype(_whole(columns - 1))})

    def decode(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Puts the values into their rows and columns."""
        rows, columns = _matrix(plan.shape)
        values = taken_values(plan, parts, out)
        counts = taken(parts, "counts", str(_whole(columns)), rows).astype(np.int64)
        column = taken(parts, "columns", str(_whole(columns - 1)), plan.kept).astype(np.int64)
        if counts.sum() != plan.kept:
            raise ValueError(f"counts sum to {counts.sum()}, wanted {plan.kept}")
        positions = np.repeat(np.arange(rows), counts) * columns + column
        if plan.kept and (column.min() < 0 or column.max() >= columns or (np.diff(positions) <= 0).any()):
            raise ValueError("columns do not rise within their rows, or lie outside")
        out[positions] = values


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _whole(largest: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds this number."""
    return np.min_scalar_type(max(0, largest))
