"""Numbers as the paper prints them, with their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

UNITS = {"": 1.0, "K": 1e3, "M": 1e6}
CELL = re.compile(r"(\d+(?:\.(\d+))?)([KMkx]?)")


@dataclass(frozen=True)
class Printed:
    """One number of the paper."""

    table: str
    row: str
    column: str
    text: str
    """The number as printed, such as 15.4K or 24x."""

    @property
    def value(self) -> float:
        """The value of the number.

        >>> Printed("Table 1", "fc1", "final", "15.4K").value
        15400.0
        """
        digits, _, unit = self._parts()
        return float(digits) * UNITS[unit]

    @property
    def rounding(self) -> float:
        """The rounding error: half of the last printed digit.

        >>> Printed("Table 1", "fc1", "final", "15.4K").rounding
        50.0
        """
        _, decimals, unit = self._parts()
        return round(0.5 * 10.0 ** -len(decimals) * UNITS[unit], 9)

    def _parts(self) -> tuple[str, str, str]:
        match = CELL.fullmatch(self.text)
        if match is None:
            raise ValueError(
                f"{self.table}, {self.row}, {self.column}: {self.text!r} is not a number such as "
                "15.4K or 24x"
            )
        return match[1], match[2] or "", match[3].upper().replace("X", "")


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper, cell by cell as printed; empty where the paper has no number."""

    name: str
    """Its place, such as Table 1."""
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for row, cells in self.rows.items():
            if len(cells) != len(self.columns):
                raise ValueError(
                    f"{self.name}, {row}: wanted {len(self.columns)} cells, got {len(cells)}"
                )

    def number(self, row: str, column: str) -> Printed | None:
        """Returns the number in a cell, or None if the cell is empty."""
        if row not in self.rows or column not in self.columns:
            raise ValueError(
                f"{self.name} has no {row!r}, {column!r}; it has {list(self.rows)} and "
                f"{self.columns}"
            )
        text = self.rows[row][self.columns.index(column)]
        return Printed(self.name, row, column, text) if text else None

    def numbers(self) -> list[Printed]:
        """Yields all numbers of the table, row by row."""
        found = [self.number(row, column) for row in self.rows for column in self.columns]
        return [each for each in found if each is not None]
