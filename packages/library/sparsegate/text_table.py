"""Formats rows of text as a table for a terminal, or in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

Row: TypeAlias = tuple[str, ...]


def aligned(rows: Sequence[Row], *, left: Collection[int] = ()) -> str:
    """Aligns columns to the right, and those with an index in `left` to the left.

    >>> print(aligned([("name", "ms"), ("fc1", "0.25")], left=[0]))
    name    ms
    fc1   0.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown(rows: Sequence[Row]) -> str:
    """Formats rows as a Markdown table; the first row is the header.

    >>> print(markdown([("a", "b"), ("1", "2")]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    header, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([header, "|" + "---|" * len(rows[0]), *body])
