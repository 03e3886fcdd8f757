"""Writes *.sg files: a few bytes of head, then everything entropy-coded in one stream."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from sparsegate.atomic import write_atomically

from .bytestream import varint
from .cost import Cost
from .entry import Entry
from .format import Array
from .rans import Encoder, frequencies
from .sg_head import MAGIC, MAX_LANES, Shapes, architecture, matching_model, registered
from .sg_mask import INDICES, FlagsWriter, add_mask, matrix_shape
from .sg_tables import choose_tables
from .sg_values import RAW, SPLIT, TABLE, VALUES, Table, add_raw, add_split, split_side
from .tensors import bits_of

BITS_PER_LANE = 4096  # a lane wastes some 20 bits


def write_sg(entries: dict[str, Entry], same: dict[str, str], path: Path) -> None:
    """Writes a network, whole or not at all."""
    write_atomically(path, encode_sg(entries, same)[0])


def encode_sg(entries: dict[str, Entry], same: dict[str, str]) -> tuple[bytes, Cost]:
    """The file's bytes, and where they go."""
    shapes: Shapes = {name: (entry.dtype, entry.plan.shape) for name, entry in entries.items()}
    model = None if same else matching_model(shapes)
    order = list(registered(*model)) if model else list(entries)
    encoder = Encoder()
    tables, sides = _add_tensors(encoder, {name: entries[name] for name in order})
    sides += [varint(1 + order.index(other)) for other in same.values()]
    shapes |= {name: shapes[other] for name, other in same.items()}
    lanes = int(np.clip(sum(encoder.information.values()) // BITS_PER_LANE, 1, MAX_LANES))
    states, words = encoder.finish(lanes)
    head = MAGIC + varint(lanes) + architecture(shapes, model) + varint(len(tables)) + b"".join([*tables, *sides])
    content = head + states.astype("<u4").tobytes() + words.astype("<u2").tobytes()
    content += zlib.crc32(content).to_bytes(4, "little")
    return content, _cost(encoder, 8 * len(content))


def _cost(encoder: Encoder, total: int) -> Cost:
    values, indices = (round(encoder.information.get(about, 0.0)) for about in (VALUES, INDICES))
    return Cost(values, indices, total - values - indices)


def _add_tensors(encoder: Encoder, entries: dict[str, Entry]) -> tuple[list[bytes], list[bytes]]:
    """The side information of tables and tensors, whose symbols go into the stream."""
    bits = [_unsigned(entry) for entry in entries.values()]
    kept = [each[each != 0] for each in bits]
    groups = ["vector" if len(entry.plan.shape) < 2 else "matrix" for entry in entries.values()]
    choice = choose_tables(kept, [entry.dtype for entry in entries.values()], groups)
    flags, sides = FlagsWriter(encoder), []
    for entry, each, values, mode in zip(entries.values(), bits, kept, choice.modes, strict=True):
        side = varint(0) + add_mask(encoder, flags, (each != 0).reshape(matrix_shape(entry.plan.shape)))
        sides.append(side + (_add_values(encoder, values, mode, choice.tables) if len(values) else b""))
    return [table.side() for table in choice.tables], sides


def _unsigned(entry: Entry) -> Array:
    bits = bits_of(entry.tensor())
    return bits.view(f"<u{bits.itemsize}")


def _add_values(encoder: Encoder, values: Array, mode: int, tables: list[Table]) -> bytes:
    if mode == RAW:
        add_raw(encoder, values)
        return varint(RAW)
    if mode == SPLIT:
        add_split(encoder, values)
        return varint(SPLIT) + split_side(values)
    table = tables[mode - TABLE]
    encoder.add_symbols(VALUES, np.searchsorted(table.values, values), frequencies(table.counts))
    return varint(mode)
