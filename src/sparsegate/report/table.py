"""Tables of a record, as rows of text."""

from __future__ import annotations

from sparsegate.record import Record

Row = tuple[str, ...]

LAYER_HEADS: Row = ("layer", "shape", "weights", "kept", "sparsity", "rate")


def layer_table(record: Record) -> list[Row]:
    """The heads, a row for every layer, and the total."""
    rows = [
        _row(layer.name.removesuffix(".weight"), "x".join(map(str, layer.shape)), layer.total, layer.kept)
        for layer in record.layers
    ]
    return [LAYER_HEADS, *rows, _row("total", "", record.total, record.kept)]


def _row(name: str, shape: str, total: int, kept: int) -> Row:
    rate = f"{total / kept:,.1f}x" if kept else "closed"
    return name, shape, f"{total:,}", f"{kept:,}", f"{100 * (1 - kept / total):.2f} %", rate
