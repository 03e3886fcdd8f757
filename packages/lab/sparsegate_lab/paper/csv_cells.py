"""Converts a table for people into cells for programs, with one number in each cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

Row = tuple[str, ...]
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
WITH_SPREAD = re.compile(rf"({NUMBER}) ± ({NUMBER})(?: %)?")
ALONE = re.compile(rf"({NUMBER})(?: %)?")


def apart(rows: Sequence[Row]) -> list[Row]:
    """Returns the table with spreads in separate columns, and numbers without separators and units.

    >>> apart([("layer", "kept"), ("fc1", "11,916 ± 84")])
    [('layer', 'kept', 'kept, spread'), ('fc1', '11916', '84')]
    """
    columns = [part for column in zip(*rows, strict=True) for part in _parts(column)]
    return list(zip(*columns, strict=True))


def _parts(column: Row) -> list[Row]:
    head, *cells = column
    if not any(WITH_SPREAD.fullmatch(cell) for cell in cells):
        return [(head, *map(_bare, cells))]
    both = [
        match.groups() if (match := WITH_SPREAD.fullmatch(cell)) else (cell, "") for cell in cells
    ]
    means, spreads = zip(*both, strict=True)
    return [(head, *map(_bare, means)), (f"{head}, spread", *map(_bare, spreads))]


def _bare(cell: str) -> str:
    """Returns a number without separators and units; other text is unchanged."""
    match = ALONE.fullmatch(cell)
    return match[1].replace(",", "") if match else cell
