"""What an exhibit found: its table, comparisons with the paper, claims and notes."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparsegate.text_table import markdown

from .verdict import Check, Claim

Row = tuple[str, ...]
CHECK_HEADS: Row = (
    "row",
    "column",
    "ours",
    "spread",
    "paper",
    "difference",
    "tolerance",
    "verdict",
)


@dataclass(frozen=True)
class Findings:
    """Everything that is written about an exhibit, except its pictures."""

    title: str
    rows: tuple[Row, ...] = ()
    """The table, with its header first; empty for a drawing."""
    checks: tuple[Check, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the reader: what was run, what was left out, and why ours differs."""
    points: dict[str, list[float]] = field(default_factory=dict)
    """The numbers behind a picture, by name of the curve."""

    @property
    def verdicts(self) -> Counter[str]:
        """How many of each verdict there are."""
        return Counter(
            [*(each.verdict for each in self.checks), *(each.verdict for each in self.claims)]
        )

    @property
    def summary(self) -> str:
        """Returns the verdicts in one line, such as "3 agree, 1 differs"."""
        return (
            ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
            or "a drawing"
        )

    def to_markdown(self) -> str:
        """Returns table, comparisons, claims and notes as Markdown."""
        parts = [
            f"# {self.title}",
            markdown(list(self.rows)) if self.rows else "",
            self._checks(),
            self._claims(),
        ]
        return "\n\n".join(part for part in (*parts, *self.notes) if part) + "\n"

    def to_csv(self) -> str:
        """Returns the table, or the points of a picture, as comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            apart(self.rows) or zip(*self._columns(), strict=True)
        )
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain values."""
        heads, *body = self.rows or ((),)
        return {
            "title": self.title,
            "summary": dict(self.verdicts),
            "table": [dict(zip(heads, row, strict=True)) for row in body],
            "checks": [each.to_json() for each in self.checks],
            "claims": [each.to_json() for each in self.claims],
            "points": self.points,
            "notes": list(self.notes),
        }

    def _columns(self) -> list[list[object]]:
        return [[name, *values] for name, values in self.points.items()]

    def _checks(self) -> str:
        if not self.checks:
            return ""
        reasons: dict[str, list[float]] = {}
        for each in self.checks:
            reasons.setdefault(each.tolerance.reason, []).append(each.tolerance.within)
        why = "\n".join(
            f"- Tolerance {_range(within)}: {reason}." for reason, within in reasons.items()
        )
        return f"{markdown([CHECK_HEADS, *map(_check_row, self.checks)])}\n\n{why}"

    def _claims(self) -> str:
        rows = [(each.text, each.evidence or "-", each.verdict) for each in self.claims]
        return markdown([("the paper says", "ours", "verdict"), *rows]) if rows else ""


def _range(numbers: list[float]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _check_row(check: Check) -> Row:
    digits, ours, difference = check.digits, check.ours, check.difference
    return (
        check.paper.row,
        check.paper.column,
        "-" if ours is None else f"{ours.mean:,.{digits}f}",
        "-" if ours is None else f"{ours.spread:,.{digits}f}",
        check.paper.text,
        "-" if difference is None else f"{difference:+,.{digits}f}",
        f"{check.tolerance.within:g}",
        check.verdict,
    )


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
