"""Reads *.sg files, and checks everything in them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..entry import Entry
from ..format import Elements
from ..limit import check_limit
from ..types import Array, Shape, bits_type, item_size, num_bytes, printable
from .bytestream import ByteReader
from .mask import MaskReader, MaskSide, matrix_shape
from .rans import Decoder, frequencies
from .shapes import MAX_TENSORS, Shapes, read_shapes
from .values import NOTHING, RAW, SPLIT, TABLE, TIED, Table, read_raw, read_split, read_split_side
from .version2 import read_shapes_v2

NAME, VERSION = b"sg", 3
SHAPE_READERS = {2: read_shapes_v2, VERSION: read_shapes}
MAX_LANES = 2**16


def read_sg(path: Path, *, limit: int | None = None) -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries of a file, and its tied names, each with the name of its entry.

    More than `limit` bytes of dense tensors are refused before they are allocated.
    """
    try:
        return decode_sg(path.read_bytes(), _entry, limit=limit)
    except ValueError as error:
        raise ValueError(f"{path}: {printable(error)}") from error


def decode_sg(
    raw: bytes | memoryview, make: Make[Made], *, limit: int | None = None
) -> tuple[dict[str, Made], dict[str, str]]:
    """The tensors of a file's bytes, and its tied names, each with the name of its tensor.

    Args:
        raw: the whole file.
        make: makes a tensor from its type, its shape, where its kept elements are (a mask of all
            elements, or their positions, rising), and their bits as unsigned integers.
        limit: the most bytes of dense tensors.

    """
    if raw[:2] != NAME or len(raw) < 8:
        raise ValueError(
            f"it begins with {bytes(raw[:3]).hex() or 'nothing'}: it is not an .sg file"
        )
    if raw[2] not in SHAPE_READERS:
        raise ValueError(
            f"it is an .sg file of version {raw[2]}, expected {VERSION} or 2; update sparsegate"
        )
    if zlib.crc32(raw[:-4]).to_bytes(4, "little") != raw[-4:]:
        raise ValueError("its checksum is wrong: it is truncated or damaged")
    reader = ByteReader(memoryview(raw)[:-4], 3)
    lanes = reader.varint(MAX_LANES)
    shapes = SHAPE_READERS[raw[2]](reader)
    check_limit(sum(num_bytes(*about) for about in shapes.values()), limit, file_bytes=len(raw))
    tables = [Table.read(reader) for _ in range(reader.varint(len(shapes)))]
    masks = MaskReader()
    sides = [_read_side(reader, masks, *about, tables) for about in shapes.values()]
    states = np.frombuffer(reader.take(4 * lanes), "<u4")
    rest = memoryview(raw)[reader.position : -4]
    if lanes == 0 or len(rest) % 2 or (states < 2**16).any():
        raise ValueError("its stream begins with impossible states")
    decoder = Decoder(states, np.frombuffer(rest, "<u2"))
    return _read_tensors(decoder, masks, shapes, sides, make)


Made = TypeVar("Made")
Make = Callable[[str, Shape, Array, Array], Made]
ReadValues = Callable[[Decoder, int], Array]
"""Reads the values of one tensor, given their number."""
Side = tuple[MaskSide, ReadValues] | int | None
"""How to read a tensor; or the number of the one it is tied to; or None if nothing is kept."""


def _read_side(
    reader: ByteReader, masks: MaskReader, dtype: str, shape: Shape, tables: list[Table]
) -> Side:
    form = reader.varint(TABLE + len(tables) - 1)
    if form == NOTHING:
        return None
    if form == TIED:
        return reader.varint(MAX_TENSORS)
    side = masks.side(reader, matrix_shape(shape))
    return side, _read_form(reader, form, dtype, tables)


def _read_form(reader: ByteReader, form: int, dtype: str, tables: list[Table]) -> ReadValues:
    whole: np.dtype[np.unsignedinteger] = np.dtype(f"<u{item_size(dtype)}")
    if form == RAW:
        return lambda decoder, count: read_raw(decoder, count, whole)
    if form == SPLIT:
        counts = read_split_side(reader)
        return lambda decoder, count: read_split(decoder, count, counts, whole)
    table = tables[form - TABLE]
    if table.dtype != dtype:
        raise ValueError(f"a tensor of type {dtype} uses a table of type {table.dtype}")
    return lambda decoder, count: table.values[decoder.symbols(count, frequencies(table.counts))]


def _read_tensors(
    decoder: Decoder, masks: MaskReader, shapes: Shapes, sides: list[Side], make: Make[Made]
) -> tuple[dict[str, Made], dict[str, str]]:
    found: dict[str, Made] = {}
    tied: dict[str, str] = {}
    names = list(shapes)
    for number, (name, side) in enumerate(zip(names, sides, strict=True)):
        if not isinstance(side, int):
            found[name] = make(*shapes[name], *_kept(decoder, masks, shapes[name][0], side))
            continue
        if not 1 <= side <= number or shapes[names[side - 1]] != shapes[name]:
            raise ValueError(f"{name} is tied to tensor {side}, which does not fit")
        tied[name] = tied.get(names[side - 1], names[side - 1])
    decoder.finish()
    return found, tied


def _kept(
    decoder: Decoder, masks: MaskReader, dtype: str, side: tuple[MaskSide, ReadValues] | None
) -> tuple[Array, Array]:
    """Where the kept elements are, as a mask or as positions, and their bits."""
    if side is None:
        return np.zeros(0, np.int64), np.zeros(0, f"<u{item_size(dtype)}")
    mask, values = side
    where = masks.where(decoder, mask)
    return where, values(decoder, mask.kept)


def _entry(dtype: str, shape: Shape, where: Array, values: Array) -> Entry:
    bits = np.zeros(num_bytes(dtype, shape) // item_size(dtype), bits_type(dtype))
    bits[where] = values.view(bits.dtype)
    return Entry.cheapest(Elements(bits, shape), dtype, negative_zeros=True)
