"""Reads *.sg files, checking everything."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from .bytestream import ByteReader
from .format import Array
from .rans import Decoder, frequencies
from .sg_head import MAGIC, MAX_LANES, MAX_TENSORS, Shapes, read_architecture
from .sg_mask import MaskReader, MaskSide, matrix_shape
from .sg_values import RAW, SPLIT, TABLE, Table, read_raw, read_split, read_split_side
from .tensors import TYPES, bits_of, num_bytes, zeros


def read_sg(path: Path, *, limit: int) -> dict[str, torch.Tensor]:
    """The tensors in a file, tied ones as one; more than `limit` bytes of them are refused."""
    try:
        return _read(path.read_bytes(), limit)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(raw: bytes, limit: int) -> dict[str, torch.Tensor]:
    if raw[:3] != MAGIC:
        raise ValueError(f"it begins with {raw[:3].hex() or 'nothing'}, wanted {MAGIC.hex()}: no .sg file of version 1")
    if len(raw) < 7 or zlib.crc32(raw[:-4]).to_bytes(4, "little") != raw[-4:]:
        raise ValueError("its checksum is wrong: it is truncated or damaged")
    reader = ByteReader(raw[:-4], 3)
    lanes = reader.varint(MAX_LANES)
    shapes = read_architecture(reader)
    wanted = sum(num_bytes(*each) for each in shapes.values())
    if wanted > limit:
        raise ValueError(f"its tensors take {wanted:,} bytes, more than the limit of {limit:,}; raise limit= to load")
    tables = [Table.read(reader) for _ in range(reader.varint(len(shapes)))]
    masks = MaskReader()
    plans = [_read_side(reader, masks, each, tables) for each in shapes.values()]
    states = np.frombuffer(reader.take(4 * lanes), "<u4")
    rest = reader.take(len(reader.raw) - reader.place)
    if lanes == 0 or len(rest) % 2 or (states < 2**16).any():
        raise ValueError("its stream begins with impossible states")
    return _read_tensors(Decoder(states, np.frombuffer(rest, "<u2")), masks, shapes, plans)


# What reads the values of one tensor once their number is known
ReadValues = Callable[[Decoder, int], Array]


def _read_side(
    reader: ByteReader, masks: MaskReader, about: tuple[str, tuple[int, ...]], tables: list[Table]
) -> tuple[int, MaskSide | None, ReadValues | None]:
    tie = reader.varint(MAX_TENSORS)
    if tie:
        return tie, None, None
    side = masks.side(reader, matrix_shape(about[1]))
    return 0, side, _read_mode(reader, about[0], tables) if side[2] else None


def _read_mode(reader: ByteReader, kind: str, tables: list[Table]) -> ReadValues:
    dtype: np.dtype[np.unsignedinteger] = np.dtype(f"<u{TYPES[kind][1].itemsize}")
    mode = reader.varint(TABLE + len(tables) - 1 if tables else SPLIT)
    if mode == RAW:
        return lambda decoder, count: read_raw(decoder, count, dtype)
    if mode == SPLIT:
        counts = read_split_side(reader)
        return lambda decoder, count: read_split(decoder, count, counts, dtype)
    table = tables[mode - TABLE]
    if table.kind != kind:
        raise ValueError(f"a tensor of type {kind} uses a table of type {table.kind}")
    return lambda decoder, count: table.values[decoder.symbols(count, frequencies(table.counts))]


def _read_tensors(
    decoder: Decoder, masks: MaskReader, shapes: Shapes, plans: list[tuple[int, MaskSide | None, ReadValues | None]]
) -> dict[str, torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for (name, (kind, shape)), (tie, side, values) in zip(shapes.items(), plans, strict=True):
        if tie:
            if tie > len(tensors) or tensors[tie - 1].shape != shape:
                raise ValueError(f"{name} is tied to tensor {tie}, which does not fit")
            tensors.append(tensors[tie - 1])
            continue
        assert side is not None
        tensor = zeros(kind, shape)
        positions = masks.bits(decoder, matrix_shape(shape), side)
        if values is not None:
            out = bits_of(tensor)
            out[positions] = values(decoder, len(positions)).view(out.dtype)
        tensors.append(tensor)
    decoder.finish()
    return dict(zip(shapes, tensors, strict=True))
