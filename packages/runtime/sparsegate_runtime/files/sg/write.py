"""Writes *.sg files: a short header, then all masks and values entropy-coded in one stream."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsegate_runtime.atomic import write_atomically

from ..cost import Cost
from ..entry import Entry
from ..types import Array
from .bytestream import varint
from .live_flags import INDICES
from .mask import MaskWriter, matrix_shape
from .rans import MAX_ROUNDS, WHOLE, Encoder, frequencies
from .read import MAX_LANES, NAME, VERSION
from .shapes import Shapes, encode_shapes
from .values import (
    MAX_TABLE,
    NOTHING,
    RAW,
    SPLIT,
    TABLE,
    TIED,
    VALUES,
    Table,
    add_raw,
    add_split,
    split_counts,
    split_side,
)

FAST_LANES = 4096
"""More lanes are hardly faster."""
BITS_PER_LANE = 16384
"""A lane wastes about 20 bits, but a single lane is slow."""
Buffers = list[bytes | memoryview]


def write_sg(entries: dict[str, Entry], tied: dict[str, str], path: Path) -> None:
    """Writes a network to a file. An interrupted write leaves no partial file."""
    write_atomically(path, *_encoded(entries, tied)[0])


def encode_sg(entries: dict[str, Entry], tied: dict[str, str]) -> tuple[bytes, Cost]:
    """The bytes of the file, and what they store."""
    pieces, cost = _encoded(entries, tied)
    return b"".join(pieces), cost


def _encoded(entries: dict[str, Entry], tied: dict[str, str]) -> tuple[Buffers, Cost]:
    """The file in pieces, so that a large one is not copied, and what its bits store."""
    shapes: Shapes = {name: (entry.dtype, entry.shape) for name, entry in entries.items()}
    shapes |= {name: shapes[owner] for name, owner in tied.items()}
    order = list(entries)
    encoder = Encoder()
    tables, sides = _add_tensors(encoder, entries)
    sides += [varint(TIED) + varint(1 + order.index(owner)) for owner in tied.values()]
    lanes = _num_lanes(encoder)
    states, words = encoder.finish(lanes)
    head = [NAME, bytes([VERSION]), varint(lanes), encode_shapes(shapes), varint(len(tables))]
    pieces: Buffers = [b"".join([*head, *tables, *sides]), states.astype("<u4").tobytes()]
    pieces += [piece.data.cast("B") for piece in words if len(piece)]
    checksum, length = 0, 0
    for piece in pieces:
        checksum, length = zlib.crc32(piece, checksum), length + memoryview(piece).nbytes
    return [*pieces, checksum.to_bytes(4, "little")], _cost(encoder, 8 * (length + 4))


def _num_lanes(encoder: Encoder) -> int:
    needed = -(-encoder.num_symbols // MAX_ROUNDS)
    if needed > MAX_LANES:
        raise ValueError(
            f"an .sg file holds at most {MAX_ROUNDS * MAX_LANES:,} symbols, got "
            f"{encoder.num_symbols:,}; save as .sparse.safetensors"
        )
    return max(1, needed, min(FAST_LANES, int(sum(encoder.information.values())) // BITS_PER_LANE))


def _cost(encoder: Encoder, total: int) -> Cost:
    values, indices = (round(encoder.information.get(about, 0.0)) for about in (VALUES, INDICES))
    return Cost(values, indices, total - values - indices)


def _add_tensors(encoder: Encoder, entries: dict[str, Entry]) -> tuple[list[bytes], list[bytes]]:
    """Adds all tensors to the stream; returns the side information of tables and tensors."""
    for entry in entries.values():
        entry.check()
    kept = [_kept(entry) for entry in entries.values()]
    groups = ["vector" if len(entry.shape) < 2 else "matrix" for entry in entries.values()]
    choice = choose_tables(kept, [entry.dtype for entry in entries.values()], groups)
    masks, sides = MaskWriter(encoder), []
    for entry, values, form in zip(entries.values(), kept, choice.forms, strict=True):
        if len(values) == 0:
            sides.append(varint(NOTHING))
            continue
        side = varint(form) + masks.add(entry.mask().reshape(matrix_shape(entry.shape)))
        sides.append(side + _add_values(encoder, values, form, choice.tables))
    return [table.side() for table in choice.tables], sides


def _kept(entry: Entry) -> Array:
    """The bits of the kept values, as unsigned integers."""
    values = entry.parts["values"]
    kept = values[values != 0] if entry.format.name == "dense" else values
    return kept.view(f"<u{kept.itemsize}")


def _add_values(encoder: Encoder, values: Array, form: int, tables: list[Table]) -> bytes:
    """Adds values to the stream; returns their side information."""
    if form == RAW:
        add_raw(encoder, values)
        return b""
    if form == SPLIT:
        add_split(encoder, values)
        return split_side(values)
    table = tables[form - TABLE]

    def cut(block: Array) -> Array:
        return np.asarray(np.searchsorted(table.values, block))

    encoder.add_symbols(VALUES, values, frequencies(table.counts), cut=cut)
    return b""


SAMPLE = 4096
MAX_SHORT = 127


@dataclass(frozen=True, eq=False)
class TableChoice:
    """The tables of a file, and how the values of each tensor are stored."""

    tables: list[Table]
    forms: list[int]


@dataclass(frozen=True, eq=False)
class _Offer:
    """The bits of some tensors that may share one table, that table if they do, and their forms."""

    bits: float
    table: Table | None
    forms: list[int]


def choose_tables(values: list[Array], dtypes: list[str], groups: list[str]) -> TableChoice:
    """Chooses the cheapest of three: no sharing, sharing in each group, or in each type."""
    by_group = [f"{dtype} {group}" for dtype, group in zip(dtypes, groups, strict=True)]
    partitions = [[[index] for index in range(len(values))], _by(by_group), _by(dtypes)]
    choices = [
        [_cheapest(dtypes[part[0]], [values[index] for index in part]) for part in partition]
        for partition in partitions
    ]
    costs = [sum(offer.bits for offer in offers) for offers in choices]
    best = int(np.argmin(costs))
    tables: list[Table] = []
    forms = [RAW] * len(values)
    for part, offer in zip(partitions[best], choices[best], strict=True):
        for index, form in zip(part, offer.forms, strict=True):
            forms[index] = TABLE + len(tables) if form == TABLE else form
        if offer.table is not None and TABLE in offer.forms:
            tables.append(offer.table)
    return TableChoice(tables, forms)


def _by(keys: list[str]) -> list[list[int]]:
    return [
        [index for index, key in enumerate(keys) if key == wanted] for wanted in dict.fromkeys(keys)
    ]


def _cheapest(dtype: str, values: list[Array]) -> _Offer:
    """The better of one table for all tensors that have few different values, and no table."""
    alone = [_alone(array) for array in values]
    plain = _Offer(sum(cost for cost, _ in alone), None, [form for _, form in alone])
    few = [index for index, array in enumerate(values) if len(array) and _has_few(array)]
    if not few:
        return plain
    distinct, counts = np.unique(np.concatenate([values[i] for i in few]), return_counts=True)
    if len(distinct) > MAX_TABLE:
        return plain
    tables = [Table(dtype, distinct, stored) for stored in (counts, _rounded(counts))]
    table = min(tables, key=lambda table: _bits(table, counts))
    others = sum(cost for index, (cost, _) in enumerate(alone) if index not in few)
    forms = [TABLE if index in few else form for index, (_, form) in enumerate(alone)]
    shared = _Offer(_bits(table, counts) + others, table, forms)
    return shared if shared.bits < plain.bits else plain


def _rounded(counts: Array) -> Array:
    """Counts in about the same proportion that take one byte each."""
    rounded: Array = np.maximum(1, counts * MAX_SHORT // counts.max())
    return rounded


def _bits(table: Table, counts: Array) -> float:
    """Bits of a table, and of its symbols if they occur `counts` times."""
    shares = frequencies(table.counts) / WHOLE
    return 8 * len(table.side()) - float((counts * np.log2(shares)).sum())


def _alone(values: Array) -> tuple[float, int]:
    """The bits of values without a table, and their form."""
    raw = 8.0 * values.nbytes
    if len(values) == 0:
        return 0.0, RAW
    counts = split_counts(values)
    counts = counts[counts > 0]
    split = raw - 8 * len(values) + _entropy(counts) + 8 * len(split_side(values))
    return (split, SPLIT) if split < raw else (raw, RAW)


def _has_few(values: Array) -> bool:
    return len(np.unique(values[:SAMPLE])) <= MAX_TABLE


def _entropy(counts: Array) -> float:
    return float((counts * -np.log2(counts / counts.sum())).sum())
