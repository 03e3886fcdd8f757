"""Writes *.sg files: a short header, then all masks and values entropy-coded in one stream."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from sparsegate_runtime.atomic import write_atomically

from ..cost import Cost
from ..entry import Entry
from ..types import Array
from .bytestream import varint
from .live_flags import INDICES
from .mask import MaskWriter, matrix_shape
from .rans import MAX_ROUNDS, Encoder, frequencies
from .read import MAX_LANES, NAME, VERSION
from .shapes import Shapes, encode_shapes
from .shared_tables import choose_tables
from .values import NOTHING, RAW, SPLIT, TABLE, TIED, VALUES, Table, add_raw, add_split, split_side

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
