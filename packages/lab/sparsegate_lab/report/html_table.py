"""Builds tables in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparsegate.web import Html, element, join

Cell: TypeAlias = Html | str


@dataclass(frozen=True)
class Head:
    """The header of a column."""

    name: str
    kind: str = ""
    """`n` for numbers, `bar` for bars, `wide` for columns that phones leave out."""


def html_table(
    caption: str, heads: Sequence[Head], rows: Iterable[Sequence[Cell]], foot: Sequence[Cell] = ()
) -> Html:
    """Returns a table whose first column names the rows; its caption is for screen readers."""
    head = element(
        "tr", *(element("th", head.name, scope="col", class_=head.kind or None) for head in heads)
    )
    body = join(_row(heads, row) for row in rows)
    table = element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", head),
        element("tbody", body),
        element("tfoot", _row(heads, foot)) if foot else None,
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def bar(share: float | int, kind: str = "") -> Html:
    """Returns a bar with the length of a share; the text next to it says the number."""
    return stacked((share, kind))


def stacked(*parts: tuple[float | int, str]) -> Html:
    """Returns several bars in a row."""
    fills = (
        element("span", class_=f"fill {kind}".strip(), style=f"width:{100 * share:.3f}%")
        for share, kind in parts
    )
    return element(
        "span", *fills, class_="track two" if len(parts) > 1 else "track", aria_hidden="true"
    )


def folded(summary: str, *inside: Html) -> Html:
    """Returns content that is shown on request."""
    return element("details", element("summary", summary), *inside)


def _row(heads: Sequence[Head], row: Sequence[Cell]) -> Html:
    first, *others = row
    cells = (
        element("td", cell, class_=head.kind or None)
        for head, cell in zip(heads[1:], others, strict=True)
    )
    return element("tr", element("th", first, scope="row"), *cells)
