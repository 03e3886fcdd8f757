"""Where every bit of a packed network goes, as a table of text."""

from __future__ import annotations

import zlib

from .container import container_cost
from .cost import position_entropy
from .entry import Entry
from .sg.write import encode_sg
from .tensors import bits_of

HEADS = (
    "tensor",
    "shape",
    "kept",
    "sparsity",
    "format",
    "bits/kept",
    "values",
    "indices",
    "bound",
    "dense",
    "zip",
)
MAX_ZIP = 2**26  # zipping more would take longer than reading the table


def packed_table(entries: dict[str, Entry], same: dict[str, str]) -> str:
    """A row for every tensor: bits of values and indices, beside the entropy bound, dense and zip."""
    small = sum(entry.num_bytes for entry in entries.values()) <= MAX_ZIP
    rows = [
        HEADS,
        *(_named_row(name, entry, small) for name, entry in entries.items()),
        *_sums(entries, same),
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    lines = [
        "  ".join(
            _aligned(cell, width, place)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), *_notes(entries, same)])


def _named_row(name: str, entry: Entry, small: bool) -> tuple[str, ...]:
    try:
        return _row(name, entry, small)
    except ValueError as error:
        raise ValueError(f"{name} ({entry.format.name}): {error}") from error


def _row(name: str, entry: Entry, small: bool) -> tuple[str, ...]:
    cost, kept, total = entry.cost, entry.kept, entry.plan.total
    return (
        name,
        "x".join(map(str, entry.plan.shape)) or "-",
        f"{kept:,}",
        f"{100 * (1 - kept / total):.2f} %" if total else "-",
        entry.format.name,
        f"{cost.total / kept:.2f}" if kept else "-",
        f"{cost.values:,}",
        f"{cost.indices:,}",
        f"{position_entropy(total, kept):,.0f}",
        f"{8 * entry.num_bytes:,}",
        f"{8 * _zipped(entry):,}" if small else "-",
    )


def _sums(entries: dict[str, Entry], same: dict[str, str]) -> list[tuple[str, ...]]:
    header = container_cost(entries, same)
    parts = sum((entry.cost for entry in entries.values()), header)
    dense, kept = (
        sum(getattr(entry, name) for entry in entries.values()) for name in ("num_bytes", "kept")
    )
    per_kept = f"{parts.total / max(1, kept):.2f}"
    sums = (
        "whole file",
        "",
        f"{kept:,}",
        "",
        "",
        per_kept,
        f"{parts.values:,}",
        f"{parts.indices:,}",
        "",
        f"{8 * dense:,}",
        "",
    )
    return [("header", *[""] * 5, f"{header.other:,}", *[""] * 4), sums]


def _notes(entries: dict[str, Entry], same: dict[str, str]) -> list[str]:
    weights = [entry for entry in entries.values() if len(entry.plan.shape) >= 2]
    kept, total = sum(entry.kept for entry in weights), sum(entry.plan.total for entry in weights)
    whole = (
        sum((entry.cost for entry in entries.values()), container_cost(entries, same)).total // 8
    )
    small = sum(entry.num_bytes for entry in entries.values()) <= MAX_ZIP
    lost = sum(entry.lost_zeros for entry in entries.values())
    return [
        *([f"{lost:,} negative zeros stored as zero"] if lost else []),
        *(f"{name} is tied to {other}" for name, other in same.items()),
        f"{whole:,} bytes as .sparse.safetensors"
        + (f", {len(encode_sg(entries, same)[0]):,} as .sg" if small else ""),
        f"{kept:,} of {total:,} weights kept; weights and indices, the paper's count: {2 * kept:,}",
        "values, indices, bound, dense and zip are in bits",
    ]


def _zipped(entry: Entry) -> int:
    return len(zlib.compress(bits_of(entry.tensor()).tobytes(), 6))


def _aligned(cell: str, width: int, place: int) -> str:
    return cell.ljust(width) if place in (0, 1, 4) else cell.rjust(width)
