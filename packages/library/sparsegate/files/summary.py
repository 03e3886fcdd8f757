"""Prints a packed network as a table that shows where every bit goes."""

from __future__ import annotations

import zlib

import numpy as np

from sparsegate_runtime.files import (
    Entry,
    encode_sg,
    header_cost,
    position_entropy,
    printable,
)

COLUMNS = (
    "tensor",
    "shape",
    "kept",
    "distinct",
    "sparsity",
    "format",
    "bits/kept",
    "values",
    "indices",
    "bound",
    "dense",
    "zip",
)
TEXT_COLUMNS = ("tensor", "shape", "format")
"""Columns aligned to the left."""
MAX_ZIP = 2**26
"""The largest network, in bytes, to be zipped and coded as .sg for the table."""


def summary(entries: dict[str, Entry], tied: dict[str, str]) -> str:
    """The table: for every tensor, bits of values and indices next to the entropy bound and zip."""
    small = sum(entry.num_bytes for entry in entries.values()) <= MAX_ZIP
    rows = [
        COLUMNS,
        *(_checked_row(name, entry, small) for name, entry in entries.items()),
        *_sums(entries, tied),
    ]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ["  ".join(map(_aligned, COLUMNS, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_notes(entries, tied, small)])


def _aligned(column: str, cell: str, width: int) -> str:
    return cell.ljust(width) if column in TEXT_COLUMNS else cell.rjust(width)


def _checked_row(name: str, entry: Entry, small: bool) -> tuple[str, ...]:
    try:
        return _row(name, entry, small)
    except ValueError as error:
        raise ValueError(f"{printable(name)} ({entry.format.name}): {error}") from error


def _row(name: str, entry: Entry, small: bool) -> tuple[str, ...]:
    cost, kept, total = entry.cost, entry.kept, entry.total
    return (
        printable(name),
        "x".join(map(str, entry.shape)) or "-",
        f"{kept:,}",
        f"{_num_distinct(entry):,}" if small else "-",
        f"{100 * (1 - kept / total):.2f} %" if total else "-",
        entry.format.name,
        f"{cost.total / kept:.2f}" if kept else "-",
        f"{cost.values:,}",
        f"{cost.indices:,}",
        f"{position_entropy(total, kept):,.0f}",
        f"{8 * entry.num_bytes:,}",
        f"{8 * len(zlib.compress(entry.array().tobytes(), 6)):,}" if small else "-",
    )


def _num_distinct(entry: Entry) -> int:
    """The number of different values that are not zero."""
    values = entry.parts["values"]
    return len(np.unique(values[values != 0]))


def _sums(entries: dict[str, Entry], tied: dict[str, str]) -> list[tuple[str, ...]]:
    header = header_cost(entries, tied)
    cost = sum((entry.cost for entry in entries.values()), header)
    kept = sum(entry.kept for entry in entries.values())
    sums = {
        "tensor": "whole file",
        "kept": f"{kept:,}",
        "bits/kept": f"{cost.total / max(1, kept):.2f}",
        "values": f"{cost.values:,}",
        "indices": f"{cost.indices:,}",
        "dense": f"{8 * sum(entry.num_bytes for entry in entries.values()):,}",
    }
    rows = [{"tensor": "header", "values": f"{header.other:,}"}, sums]
    return [tuple(row.get(column, "") for column in COLUMNS) for row in rows]


def _notes(entries: dict[str, Entry], tied: dict[str, str], small: bool) -> list[str]:
    weights = [entry for entry in entries.values() if len(entry.shape) >= 2]
    kept, total = sum(entry.kept for entry in weights), sum(entry.total for entry in weights)
    cost = sum((entry.cost for entry in entries.values()), header_cost(entries, tied))
    lost = sum(entry.num_negative_zeros for entry in entries.values())
    notes = [f"{lost:,} negative zeros stored as zero"] if lost else []
    notes += [f"{printable(name)} is tied to {printable(owner)}" for name, owner in tied.items()]
    every = max(1, sum(entry.kept for entry in entries.values()))
    size = f"{cost.total // 8:,} bytes as .sparse.safetensors ({cost.total / every:.1f} bits/kept)"
    if small:
        coded = len(encode_sg(entries, tied)[0])
        size += f", {coded:,} as .sg ({8 * coded / every:.1f} bits/kept)"
    return [
        *notes,
        size,
        f"{kept:,} of {total:,} weights kept; weights and indices, the paper's count: {2 * kept:,}",
        "values, indices, bound, dense and zip are in bits; values and indices are those of "
        ".sparse.safetensors, and .sg stores values that repeat in fewer",
    ]
