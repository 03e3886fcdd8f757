"""Compares a network's layers with the paper's rows."""

from __future__ import annotations

from collections.abc import Mapping

from sparsegate_lab.record import Record
from sparsegate_lab.study import Study, Summary

from .findings import Row
from .printed import PrintedTable
from .verdict import Check, Tolerance

Parts = Mapping[str, slice]
"""Returns which of a network's weights a row of the paper describes."""
HEADS: Row = ("layer", "weights", "kept", "paper kept", "sparsity", "paper sparsity")


def layer_rows(study: Study | None, table: PrintedTable, parts: Parts) -> tuple[Row, ...]:
    """Returns weights, kept weights and sparsity of every row, ours and the paper's."""
    return (HEADS, *(_row(study, table, name, part) for name, part in parts.items()))


def layer_checks(
    study: Study | None, table: PrintedTable, parts: Parts, tolerance: Tolerance
) -> tuple[Check, ...]:
    """Returns the sparsities that the paper prints, next to ours."""
    printed = [number for number in table.numbers() if number.column == "sparsity"]
    return tuple(
        Check(number, None if study is None else sparsity(study, parts[number.row]), tolerance)
        for number in printed
    )


def sparsity(study: Study, part: slice) -> Summary:
    """Returns the percentage of weights that were removed from these layers."""
    return study.summary(lambda record: 100 * (1 - _kept(record, part) / _total(record, part)))


def _row(study: Study | None, table: PrintedTable, name: str, part: slice) -> Row:
    printed = [
        number.text if (number := table.number(name, column)) else "-"
        for column in ("final", "sparsity")
    ]
    if study is None:
        initial = table.number(name, "initial")
        return (name, initial.text if initial else "-", "-", printed[0], "-", printed[1])
    kept, gone = study.summary(lambda record: _kept(record, part)), sparsity(study, part)
    total = f"{_total(study.records[0], part):,}"
    ours = f"{kept.mean:,.0f} ± {kept.spread:,.0f}", f"{gone.mean:.2f} ± {gone.spread:.2f} %"
    return (name, total, ours[0], printed[0], ours[1], printed[1] + " %" * (printed[1] != "-"))


def _kept(record: Record, part: slice) -> int:
    return sum(layer.kept for layer in record.layers[part])


def _total(record: Record, part: slice) -> int:
    return sum(layer.total for layer in record.layers[part])
