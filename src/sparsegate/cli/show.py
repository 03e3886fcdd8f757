"""A record on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from sparsegate.record import Record
from sparsegate.report import layer_table


def show_record(record: Record, folder: Path, console: Console) -> None:
    """Prints the layer table, the result and where it lies."""
    heads, *rows, total = layer_table(record)
    table = Table(*heads)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*total)
    console.print(table)
    for line in _lines(record, folder):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _lines(record: Record, folder: Path) -> list[str]:
    return [
        f"test accuracy {record.test:.2f} %, validation {record.validation:.2f} %",
        f"{record.kept:,} of {record.total:,} weights ({record.rate:.1f}x fewer); "
        f"with biases {record.rate_with_biases:.1f}x; weights and indices {record.num_with_indices:,} numbers",
        *(f"note: {note}" for note in record.notes),
        f"{record.seconds:.0f} s of training; record, network and checkpoints are in {folder}",
    ]
