"""Tables in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparsegate.web import Html, element, join

Cell: TypeAlias = Html | str


@dataclass(frozen=True)
class Head:
    """The head of a column."""

    name: str
    kind: str = ""
    """`n` for numbers, `bar` for bars, `wide` for what a phone leaves out."""


def html_table(
    caption: str, heads: Sequence[Head], rows: Iterable[Sequence[Cell]], foot: Sequence[Cell] = ()
) -> Html:
    """A table whose first column names the rows; its caption is for those who cannot see what stands around it."""
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
    """A bar as long as a share of its track; what it says stands beside it in words."""
    return stacked((share, kind))


def stacked(*parts: tuple[float | int, str]) -> Html:
    """Several bars one after the other."""
    fills = (
        element("span", class_=f"fill {kind}".strip(), style=f"width:{100 * share:.3f}%")
        for share, kind in parts
    )
    return element(
        "span", *fills, class_="track two" if len(parts) > 1 else "track", aria_hidden="true"
    )


def folded(summary: str, *inside: Html) -> Html:
    """What is shown to those who ask."""
    return element("details", element("summary", summary), *inside)


def _row(heads: Sequence[Head], row: Sequence[Cell]) -> Html:
    first, *others = row
    cells = (
        element("td", cell, class_=head.kind or None)
        for head, cell in zip(heads[1:], others, strict=True)
    )
    return element("tr", element("th", first, scope="row"), *cells)
