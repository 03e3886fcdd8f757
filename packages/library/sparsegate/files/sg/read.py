"""Reads *.sg files, checking everything."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..entry import Entry
from ..format import Array
from ..tensors import TYPES, bits_of, num_bytes, zeros
from .bytestream import ByteReader
from .head import MAGIC, MAX_LANES, MAX_TENSORS, VERSION, Shapes, read_architecture
from .mask import MaskReader, MaskSide, matrix_shape
from .rans import Decoder, frequencies
from .values import NOTHING, RAW, SPLIT, TABLE, TIED, Table, read_raw, read_split, read_split_side


def read_sg(path: Path, *, limit: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries in a file, and the tied names; more than `limit` bytes of tensors are refused."""
    try:
        return _read(path.read_bytes(), limit)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(raw: bytes, limit: int) -> tuple[dict[str, Entry], dict[str, str]]:
    if raw[:3] != MAGIC:
        raise ValueError(
            f"it begins with {raw[:3].hex() or 'nothing'}, wanted {MAGIC.hex()}: no .sg file of version {VERSION}"
        )
    if len(raw) < 7 or zlib.crc32(raw[:-4]).to_bytes(4, "little") != raw[-4:]:
        raise ValueError("its checksum is wrong: it is truncated or damaged")
    reader = ByteReader(raw[:-4], 3)
    lanes = reader.varint(MAX_LANES)
    shapes = read_architecture(reader)
    wanted = sum(num_bytes(*each) for each in shapes.values())
    if wanted > limit:
        raise ValueError(
            f"its tensors take {wanted:,} bytes, more than the limit of {limit:,}; raise limit= to load"
        )
    tables = [Table.read(reader) for _ in range(reader.varint(len(shapes)))]
    masks = MaskReader()
    plans = [_read_side(reader, masks, each, tables) for each in shapes.values()]
    states = np.frombuffer(reader.take(4 * lanes), "<u4")
    rest = reader.take(len(reader.raw) - reader.place)
    if lanes == 0 or len(rest) % 2 or (states < 2**16).any():
        raise ValueError("its stream begins with impossible states")
    return _read_entries(Decoder(states, np.frombuffer(rest, "<u2")), masks, shapes, plans)


# What reads the values of one tensor once their number is known
ReadValues = Callable[[Decoder, int], Array]
Plan = tuple[MaskSide, ReadValues] | int | None
"""Mask and values of a tensor; or the number of the one it is tied to, or nothing if nothing is kept."""


def _read_side(
    reader: ByteReader, masks: MaskReader, about: tuple[str, tuple[int, ...]], tables: list[Table]
) -> Plan:
    form = reader.varint(TABLE + len(tables) - 1)
    if form == NOTHING:
        return None
    if form == TIED:
        return reader.varint(MAX_TENSORS)
    side = masks.side(reader, matrix_shape(about[1]))
    return side, _read_form(reader, form, about[0], tables)


def _read_form(reader: ByteReader, form: int, kind: str, tables: list[Table]) -> ReadValues:
    dtype: np.dtype[np.unsignedinteger] = np.dtype(f"<u{TYPES[kind][1].itemsize}")
    if form == RAW:
        return lambda decoder, count: read_raw(decoder, count, dtype)
    if form == SPLIT:
        counts = read_split_side(reader)
        return lambda decoder, count: read_split(decoder, count, counts, dtype)
    table = tables[form - TABLE]
    if table.kind != kind:
        raise ValueError(f"a tensor of type {kind} uses a table of type {table.kind}")
    return lambda decoder, count: table.values[decoder.symbols(count, frequencies(table.counts))]


def _read_entries(
    decoder: Decoder, masks: MaskReader, shapes: Shapes, plans: list[Plan]
) -> tuple[dict[str, Entry], dict[str, str]]:
    entries: dict[str, Entry] = {}
    same: dict[str, str] = {}
    names = list(shapes)
    for place, (name, plan) in enumerate(zip(names, plans, strict=True)):
        if not isinstance(plan, int):
            entries[name] = _read_entry(decoder, masks, shapes[name], plan)
            continue
        if not 1 <= plan <= place or shapes[names[plan - 1]] != shapes[name]:
            raise ValueError(f"{name} is tied to tensor {plan}, which does not fit")
        same[name] = same.get(names[plan - 1], names[plan - 1])
    decoder.finish()
    return entries, same


def _read_entry(
    decoder: Decoder,
    masks: MaskReader,
    about: tuple[str, tuple[int, ...]],
    plan: tuple[MaskSide, ReadValues] | None,
) -> Entry:
    tensor = zeros(*about)  # only one is dense at a time
    if plan is not None:
        side, values = plan
        out, positions = bits_of(tensor), masks.bits(decoder, side)
        out[positions] = values(decoder, len(positions)).view(out.dtype)
    return Entry.cheapest(tensor, negative_zeros=True)  # what a file holds is kept
