"""A frontier as rows of text and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot
from sparsegate.text_table import Row
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study

from .page_settings import WISHES, said

HEADS: Row = (
    "price",
    "seed",
    "weights",
    "rate",
    "rate with biases",
    "validation %",
    "test %",
    "best",
)


def frontier_table(study: Study) -> list[Row]:
    """Returns the header and a row for every member, fewest weights first."""
    best = {record.name for record in study.frontier()}
    ordered = sorted(study.records, key=lambda record: record.kept)
    heads = ("target", *HEADS[1:]) if any(map(_target, ordered)) else HEADS
    return [heads, *(_row(record, record.name in best) for record in ordered)]


def _row(record: Record, is_best: bool) -> Row:
    return (
        _target(record) or _price(record),
        str(record.run["seed"]),
        str(record.kept),
        f"{record.rate:.1f}",
        f"{record.rate_with_biases:.1f}",
        f"{record.validation:.2f}",
        f"{record.test:.2f}",
        "*" if is_best else "",
    )


def _target(record: Record) -> str:
    """Returns what the run asked for, such as keep 0.1; empty if it had a price."""
    target = record.run["method"].get("target") or {}
    asked = ((wish, target.get(wish)) for wish in WISHES)
    return next((f"{wish} {said(value)}" for wish, value in asked if value is not None), "")


def _price(record: Record) -> str:
    return said(record.run["method"].get("penalty", {}).get("count"))


def plot_frontier(study: Study, path: Path) -> list[Path]:
    """Writes the plot next to a path and returns its files; none without matplotlib."""

    def draw(figure: Any) -> None:
        axes, best = figure.subplots(), study.frontier()
        kept, test = zip(*((each.kept, each.test) for each in study.records), strict=True)
        axes.plot(kept, test, "o", alpha=0.4)
        kept, test = zip(*((each.kept, each.test) for each in best), strict=True)
        axes.plot(kept, test, "o-", color="black", label="best by validation")
        axes.set(
            xscale="log", xlabel="weights", ylabel="test accuracy in percent", title=study.title
        )
        axes.grid(visible=True, alpha=0.3)
        axes.legend(loc="lower right")

    return save_plot(draw, path, size=(6.4, 4.2))
