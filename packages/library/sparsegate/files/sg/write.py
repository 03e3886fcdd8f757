"""Writes *.sg files: a few bytes of head, then everything entropy-coded in one stream."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from sparsegate_runtime.atomic import Content, write_atomically

from ..cost import Cost
from ..entry import Entry
from ..format import Array
from .bytestream import varint
from .flags import INDICES
from .head import MAGIC, MAX_LANES, Shapes, architecture, matching_model, registered
from .mask import MaskWriter, matrix_shape
from .rans import MAX_ROUNDS, Encoder, frequencies
from .tables import choose_tables
from .values import NOTHING, RAW, SPLIT, TABLE, TIED, VALUES, Table, add_raw, add_split, split_side

FAST_LANES = 4096  # more are hardly faster
BITS_PER_LANE = 16384  # a lane wastes some 20 bits, but one alone is slow


def write_sg(entries: dict[str, Entry], same: dict[str, str], path: Path) -> None:
    """Writes a network, whole or not at all."""
    write_atomically(path, *_encoded(entries, same)[0])


def encode_sg(entries: dict[str, Entry], same: dict[str, str]) -> tuple[bytes, Cost]:
    """The file's bytes, and where they go."""
    pieces, cost = _encoded(entries, same)
    return b"".join(pieces), cost


def _encoded(entries: dict[str, Entry], same: dict[str, str]) -> tuple[list[Content], Cost]:
    """The file in pieces, so that a large one need not be copied into one, and where its bits go."""
    shapes: Shapes = {name: (entry.dtype, entry.plan.shape) for name, entry in entries.items()}
    model = None if same else matching_model(shapes)
    order = list(registered(*model)) if model else list(entries)
    encoder = Encoder()
    tables, sides = _add_tensors(encoder, {name: entries[name] for name in order})
    sides += [varint(TIED) + varint(1 + order.index(other)) for other in same.values()]
    shapes |= {name: shapes[other] for name, other in same.items()}
    lanes = _lanes(encoder)
    states, words = encoder.finish(lanes)
    head = (
        MAGIC
        + varint(lanes)
        + architecture(shapes, model)
        + varint(len(tables))
        + b"".join([*tables, *sides])
    )
    pieces: list[Content] = [
        head,
        states.astype("<u4").tobytes(),
        *(each.data.cast("B") for each in words if len(each)),
    ]
    checksum, length = 0, 0
    for piece in pieces:
        checksum, length = zlib.crc32(piece, checksum), length + memoryview(piece).nbytes
    return [*pieces, checksum.to_bytes(4, "little")], _cost(encoder, 8 * (length + 4))


def _lanes(encoder: Encoder) -> int:
    needed = -(-encoder.num_symbols // MAX_ROUNDS)
    if needed > MAX_LANES:
        raise ValueError(
            f"{encoder.num_symbols:,} symbols are too many for one .sg file; save as .sparse.safetensors"
        )
    return max(1, needed, min(FAST_LANES, int(sum(encoder.information.values())) // BITS_PER_LANE))


def _cost(encoder: Encoder, total: int) -> Cost:
    values, indices = (round(encoder.information.get(about, 0.0)) for about in (VALUES, INDICES))
    return Cost(values, indices, total - values - indices)


def _add_tensors(encoder: Encoder, entries: dict[str, Entry]) -> tuple[list[bytes], list[bytes]]:
    """The side information of tables and tensors, whose symbols go into the stream."""
    for entry in entries.values():
        entry.check()
    kept = [_kept(entry) for entry in entries.values()]
    groups = ["vector" if len(entry.plan.shape) < 2 else "matrix" for entry in entries.values()]
    choice = choose_tables(kept, [entry.dtype for entry in entries.values()], groups)
    masks, sides = MaskWriter(encoder), []
    for entry, values, form in zip(entries.values(), kept, choice.forms, strict=True):
        if len(values) == 0:
            sides.append(varint(NOTHING))
            continue
        side = varint(form) + masks.add(entry.mask().reshape(matrix_shape(entry.plan.shape)))
        sides.append(side + _add_values(encoder, values, form, choice.tables))
    return [table.side() for table in choice.tables], sides


def _kept(entry: Entry) -> Array:
    """The kept values, as whole numbers without a sign."""
    values = entry.parts["values"]
    kept = values[values != 0] if entry.format.name == "dense" else values
    return kept.view(f"<u{kept.itemsize}")


def _add_values(encoder: Encoder, values: Array, form: int, tables: list[Table]) -> bytes:
    """Side information of values, which go into the stream."""
    if form == RAW:
        add_raw(encoder, values)
        return b""
    if form == SPLIT:
        add_split(encoder, values)
        return split_side(values)
    table = tables[form - TABLE]
    encoder.add_symbols(
        VALUES,
        values,
        frequencies(table.counts),
        cut=lambda block: np.searchsorted(table.values, block),
    )
    return b""
