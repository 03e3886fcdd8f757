"""Formats records as rows of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from sparsegate.text_table import Row, markdown
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study, Summary
from sparsegate_runtime.atomic import write_atomically

LAYER_HEADS: Row = ("layer", "shape", "weights", "kept", "sparsity", "rate")
STUDY_HEADS: Row = (
    "recipe",
    "weights kept",
    "rate",
    "rate with biases",
    "test accuracy",
    "minutes",
    "on",
)


@runtime_checkable
class Savable(Protocol):
    """What can be written to a JSON file."""

    def save(self, path: Path) -> None:
        """Writes it."""


def layer_table(record: Record) -> list[Row]:
    """Returns the header, a row for every layer, and the total."""
    rows = [
        _layer_row(
            layer.name.removesuffix(".weight"),
            "x".join(map(str, layer.shape)),
            layer.total,
            layer.kept,
        )
        for layer in record.layers
    ]
    return [LAYER_HEADS, *rows, _layer_row("total", "", record.total, record.kept)]


def study_table(studies: Mapping[str, Study]) -> list[Row]:
    """Returns the header and a row for every study: means over seeds, with their spread."""
    return [STUDY_HEADS, *(_study_row(name, study) for name, study in studies.items())]


def comma_separated(rows: Sequence[Row]) -> str:
    """Rows as CSV.

    >>> print(comma_separated([("a", "b"), ("1", "2,5")]), end="")
    a,b
    1,"2,5"
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def save_with_tables(result: Savable, rows: list[Row], out: Path) -> Path:
    """Writes a result as OUT.json, and its table as OUT.md and OUT.csv; returns the first path."""
    record, *tables = (out.with_name(f"{out.name}.{ending}") for ending in ("json", "md", "csv"))
    out.parent.mkdir(parents=True, exist_ok=True)
    result.save(record)
    for path, text in zip(tables, (markdown(rows) + "\n", comma_separated(rows)), strict=True):
        write_atomically(path, text.encode())
    return record


def _layer_row(name: str, shape: str, total: int, kept: int) -> Row:
    rate = f"{total / kept:,.1f}x" if kept else "closed"
    return name, shape, f"{total:,}", f"{kept:,}", f"{100 * (1 - kept / total):.2f} %", rate


def _study_row(name: str, study: Study) -> Row:
    kept, rate = (
        study.summary(lambda record: record.kept),
        study.summary(lambda record: record.rate),
    )
    with_biases = study.summary(lambda record: record.rate_with_biases)
    test = study.summary(lambda record: record.test)
    machine, seeds = study.records[0].machine, len(study.records)
    minutes = study.summary(lambda record: record.seconds / 60)
    return (
        f"`{name}` ({seeds} seeds)" if seeds > 1 else f"`{name}` (one seed)",
        _spread(kept, 0, seeds),
        _spread(rate, 0, seeds) + "x",
        f"{with_biases.mean:.0f}x",
        _spread(test, 2, seeds) + " %",
        f"{minutes.mean:.1f}",
        machine["gpu"] or f"{machine['cores']} cores",
    )


def _spread(summary: Summary, digits: int, seeds: int) -> str:
    """Formats a mean with its spread, which one seed does not have."""
    return f"{summary.mean:,.{digits}f}" + (f" ± {summary.spread:,.{digits}f}" if seeds > 1 else "")
