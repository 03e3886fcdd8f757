"""Writes the page of several runs: the frontier, a table, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice

from sparsegate.web import Html, document, element, section
from sparsegate_lab.record import Record

from .frontier_chart import data_of, frontier_chart
from .html_table import Cell, Head, bar, html_table
from .page_settings import effective, flat, said

HEADS = [
    Head("run"),
    Head("method", "wide"),
    Head("test", "n"),
    Head("kept", "n"),
    Head("fewer", "n"),
    Head("", "bar wide"),
    Head("minutes", "n wide"),
]


def comparison_page(records: Sequence[Record]) -> str:
    """Returns the whole file, from records alone."""
    names = run_names(len(records))
    heading = element(
        "header",
        element("p", f"{len(records)} runs side by side", class_="kicker"),
        element("h1", _headline(records)),
        class_="top",
    )
    parts = (_picture(records, names), _table(records, names), _differences(records, names))
    footer = element("footer", "Made by sparsegate. This file needs no network.")
    return document(
        f"{len(records)} runs side by side", heading, element("main", *parts), footer, scripts=()
    )


def _headline(records: Sequence[Record]) -> str:
    fewest = min(record.kept for record in records)
    if len(data := data_of(records)) > 1:
        return f"{len(data)} datasets, from {fewest:,} weights"
    return f"From {fewest:,} weights to {max(record.test for record in records):.2f} %"


def run_names(number: int) -> list[str]:
    """Returns A to Z, then A1 to Z1, and so on.

    >>> run_names(28)[-3:]
    ['Z', 'A1', 'B1']
    """
    letters = [chr(ord("A") + place) for place in range(26)]
    return list(islice((f"{letter}{turn or ''}" for turn in count() for letter in letters), number))


def _picture(records: Sequence[Record], names: Sequence[str]) -> Html:
    legend = (
        element(
            "li", element("i"), "on the frontier: no run has both fewer weights and more accuracy"
        ),
        element("li", element("i", class_="shut"), "behind it"),
    )
    return section(
        "frontier",
        "Accuracy over kept weights",
        element("ul", *legend, class_="legend"),
        _several(data_of(records)),
        frontier_chart(records, names),
    )


def _several(data: Sequence[str]) -> Html | None:
    if len(data) == 1:
        return None
    text = f"The runs are on different data, each with a frontier: {', '.join(data)}."
    return element("p", text, class_="note")


def _table(records: Sequence[Record], names: Sequence[str]) -> Html:
    most = max(max(record.kept for record in records), 1)
    rows = [
        _row(name, record, record.kept / most) for name, record in zip(names, records, strict=True)
    ]
    return section(
        "runs", "The runs", html_table("The runs, with accuracy and kept weights", HEADS, rows)
    )


def _row(name: str, record: Record, share: float) -> tuple[Cell, ...]:
    return (
        element("span", name, element("span", f" {record.name}", class_="quiet code")),
        record.run["method"]["name"].replace("_", " "),
        f"{record.test:.2f} %",
        f"{record.kept:,}",
        f"{record.rate:,.1f}x",
        bar(share),
        f"{record.seconds / 60:,.1f}",
    )


def _differences(records: Sequence[Record], names: Sequence[str]) -> Html:
    settings = [flat(effective(record.run)) for record in records]
    keys = list(dict.fromkeys(key for each in settings for key in each))
    rows = [
        (key, *(said(each[key]) if key in each else "" for each in settings))
        for key in keys
        if len({repr(each.get(key, "")) for each in settings}) > 1
    ]
    heads = [Head("setting"), *(Head(name) for name in names)]
    table = (
        html_table("Settings that differ", heads, rows)
        if rows
        else element("p", "None: all settings are the same.")
    )
    return section("differ", "Settings that differ", table)
