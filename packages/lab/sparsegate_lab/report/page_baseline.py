"""The part of a page that compares the sparse network with a dense one."""

from __future__ import annotations

from sparsegate.web import Html, element, join, section
from sparsegate_lab.record import Record

from .html_table import Cell, Head, bar, html_table
from .network_view import Baseline, NetworkView

HEADS = [Head(""), Head("dense", "n"), Head("this run", "n"), Head("", "bar wide"), Head("so", "n")]


def baseline_section(record: Record, view: NetworkView, baseline: Baseline | None) -> Html | None:
    """Returns a table of both, or the command for the dense run; nothing for a dense run."""
    if baseline is None:
        return None
    body = (
        _missing(baseline)
        if baseline.test is None
        else _table(record, view, baseline, baseline.test)
    )
    return section("dense", "Against the dense network", body)


def _missing(baseline: Baseline) -> Html:
    words = "There is no dense run of the same model and data in this folder of runs."
    if not baseline.command:
        return element("p", words)
    how = " Make one with this command, then write the page again:"
    return join((element("p", words + how), element("pre", baseline.command)))


def _table(record: Record, view: NetworkView, baseline: Baseline, test: float) -> Html:
    dense, small = view.files.get("dense", 0), min(view.files.values(), default=0)
    rows: list[tuple[Cell, ...]] = [
        (
            "Test accuracy",
            f"{test:.2f} %",
            f"{record.test:.2f} %",
            "",
            f"{record.test - test:+.2f} points",
        ),
        (
            "Errors in 10,000",
            f"{100 * (100 - test):,.0f}",
            f"{100 * (100 - record.test):,.0f}",
            "",
            "",
        ),
        _fewer("Weights", baseline.kept, record.kept),
        *([_fewer("File, bytes", dense, small)] if small else []),
        ("Training, seconds", f"{baseline.seconds:,.0f}", f"{record.seconds:,.0f}", "", ""),
    ]
    table = html_table("Dense and pruned network", HEADS, rows)
    return join(
        (
            element(
                "p", f"The dense run is {baseline.name}. {_differences(baseline)}", class_="quiet"
            ),
            table,
        )
    )


def _fewer(name: str, dense: int, ours: int) -> tuple[Cell, ...]:
    return (
        name,
        f"{dense:,}",
        f"{ours:,}",
        bar(ours / max(1, dense)),
        f"{dense / max(1, ours):,.1f}x fewer",
    )


def _differences(baseline: Baseline) -> str:
    differs = baseline.differs or {}
    if not differs:
        return "All settings but the method are the same."
    each = (f"{name} ({theirs} there, {ours} here)" for name, (theirs, ours) in differs.items())
    return f"Besides the method, it differs in {', '.join(each)}."
