"""Formats a comparison of methods: accuracy by method and rate."""

from __future__ import annotations

from sparsegate.text_table import Row
from sparsegate_lab.comparison import DENSE, Comparison
from sparsegate_lab.record import Record
from sparsegate_lab.study import Summary

OURS = "learned_gates"


def rates_table(comparison: Comparison) -> list[Row]:
    """Returns the header, a row per method, and the lead of gates over the best other method.

    Cells are test accuracies: means over seeds, with the spread between them. A star marks the
    method with the best validation accuracy at each rate.
    """
    keeps = comparison.keeps
    best = [comparison.best(keep) for keep in keeps]
    heads = ("method", *(f"keep {keep:g}" for keep in keeps))
    rows = [
        (method, *(_cell(comparison, method, *pair) for pair in zip(keeps, best, strict=True)))
        for method in comparison.methods
    ]
    dense = comparison.summary(DENSE, None, _test)
    control = [(DENSE, *(_spread(dense) for _ in keeps))] if dense else []
    return [heads, *control, *rows, *_lead(comparison)]


def _cell(comparison: Comparison, method: str, keep: float, best: str) -> str:
    summary = comparison.summary(method, keep, _test)
    return _spread(summary) + ("*" if method == best else "") if summary else "-"


def _lead(comparison: Comparison) -> list[Row]:
    """Returns the lead of gates over the best other method; nothing without gates."""
    if OURS not in comparison.methods or len(comparison.methods) == 1:
        return []
    return [(f"{OURS} - best other", *(_difference(comparison, keep) for keep in comparison.keeps))]


def _difference(comparison: Comparison, keep: float) -> str:
    ours = comparison.summary(OURS, keep, _test)
    rival = comparison.summary(comparison.best(keep, without=OURS), keep, _test)
    return f"{ours.mean - rival.mean:+.2f}" if ours and rival else "-"


def _spread(summary: Summary) -> str:
    return f"{summary.mean:.2f}" + (
        f" ± {summary.spread:.2f}" if summary.low < summary.high else ""
    )


def _test(record: Record) -> float:
    return record.test
