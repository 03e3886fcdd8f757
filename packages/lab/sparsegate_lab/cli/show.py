"""Shows a record on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sparsegate_lab.record import Record
from sparsegate_lab.report import layer_table
from sparsegate_lab.train import RunFolder


def show_record(record: Record, place: RunFolder, console: Console) -> None:
    """Prints the table of layers, the result and its path."""
    heads, *rows, total = layer_table(record)
    table = Table(*heads)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*total)
    console.print(table)
    for line in _lines(record, place):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _files(place: RunFolder) -> list[str]:
    dense = place.network.stat().st_size
    sizes = {path.name: path.stat().st_size for path in place.packed}
    return [
        f"{name}: {size:,} bytes, {dense / size:.1f} times smaller than dense"
        for name, size in sizes.items()
    ]


def _lines(record: Record, place: RunFolder) -> list[str]:
    return [
        f"test accuracy {record.test:.2f} %, validation {record.validation:.2f} %",
        f"{record.kept:,} of {record.total:,} weights ({record.rate:.1f}x fewer); "
        f"with biases {record.rate_with_biases:.1f}x; "
        f"weights and indices {record.num_with_indices:,} numbers",
        *(f"note: {note}" for note in record.notes),
        *_files(place),
        f"{record.seconds:.0f} s of training; record, network and checkpoints are in {place.path}",
    ]
