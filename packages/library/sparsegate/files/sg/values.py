"""The values of .sg files: raw, split into exponent and rest, or as symbols of a shared table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..format import Array
from ..tensors import TYPES
from .bytestream import ByteReader, varint
from .head import CODES
from .rans import WHOLE, Decoder, Encoder, count_symbols, frequencies

MAX_TABLE = 256
NOTHING, TIED, RAW, SPLIT, TABLE = 0, 1, 2, 3, 4  # and beyond: the number of the table
BYTE = 256
VALUES = "values"


@dataclass(frozen=True, eq=False)
class Table:
    """Values that tensors of one type share, in rising order, and how often each stands."""

    kind: str
    values: Array
    counts: Array

    @property
    def halved(self) -> bool:
        """Whether the lower halves of all values are zero."""
        half = 4 * self.values.itemsize
        return bool(half >= 8 and not (self.values & self.values.dtype.type((1 << half) - 1)).any())

    def side(self) -> bytes:
        """The table as side information."""
        half = 4 * self.values.itemsize
        stored = (
            (self.values >> self.values.dtype.type(half)).astype(f"<u{self.values.itemsize // 2}")
            if self.halved
            else self.values
        )
        head = bytes([CODES.index(self.kind)]) + varint(2 * len(self.values) + self.halved)
        return head + stored.tobytes() + b"".join(varint(int(count)) for count in self.counts)

    @classmethod
    def read(cls, reader: ByteReader) -> Table:
        """A table from its side information."""
        (code,) = reader.take(1)
        if code >= len(CODES):
            raise ValueError(f"a table has the unknown type {code}")
        width = TYPES[CODES[code]][1].itemsize
        head = reader.varint(2 * MAX_TABLE + 1)
        size, halved = head >> 1, head & 1
        stored = width // 2 if halved else width
        if not size or not stored:
            raise ValueError("a table has no values, or halves of bytes")
        values = np.frombuffer(reader.take(size * stored), f"<u{stored}").astype(f"<u{width}")
        values = values << np.array(4 * width if halved else 0, values.dtype)
        counts = np.array([reader.varint(2**40) for _ in range(size)])
        if (np.diff(values.astype(object)) <= 0).any() or values[0] == 0 or not counts.any():
            raise ValueError("a table's values do not rise from above zero, or none is used")
        return cls(CODES[code], values, counts)


def split_side(values: Array) -> bytes:
    """The counts of the upper bytes of rotated values."""
    counts = split_counts(values)
    upper = np.flatnonzero(counts)
    return varint(len(upper)) + b"".join(
        bytes([int(byte)]) + varint(int(counts[byte])) for byte in upper
    )


def split_counts(values: Array) -> Array:
    """How often each of the 256 upper bytes stands."""
    return count_symbols(values, BYTE, partial(_cut, shift=8 * values.itemsize - 8, turned=True))


def read_split_side(reader: ByteReader) -> Array:
    """The counts of all 256 bytes."""
    counts = np.zeros(256, np.int64)
    for _ in range(reader.varint(256)):
        (byte,) = reader.take(1)
        counts[byte] = reader.varint(2**40)
    if not counts.any():
        raise ValueError("no byte occurs in a table of bytes")
    return counts


def add_raw(encoder: Encoder, values: Array) -> None:
    """Values as they are."""
    if values.itemsize == 1:
        encoder.add_pieces(VALUES, values, BYTE)
    for shift in range(0, 8 * values.itemsize - 8, 16):
        encoder.add_pieces(VALUES, values, WHOLE, cut=partial(_cut, shift=shift, turned=False))


def read_raw(decoder: Decoder, count: int, dtype: np.dtype[np.unsignedinteger]) -> Array:
    """Values as they are."""
    if dtype.itemsize == 1:
        return decoder.pieces(count, BYTE).astype(dtype)
    values = np.zeros(count, dtype)
    for shift in range(0, 8 * dtype.itemsize, 16):
        values |= decoder.pieces(count, WHOLE).astype(dtype) << dtype.type(shift)
    return values


def add_split(encoder: Encoder, values: Array) -> None:
    """Values whose upper bytes, after a rotation, are coded by how often they occur."""
    width = 8 * values.itemsize
    shares = frequencies(split_counts(values))
    encoder.add_symbols(VALUES, values, shares, cut=partial(_cut, shift=width - 8, turned=True))
    if width > 8:
        encoder.add_pieces(
            VALUES, values, BYTE, cut=partial(_cut, shift=width - 16, turned=True, choices=BYTE)
        )
    for shift in range(0, width - 16, 16):
        encoder.add_pieces(VALUES, values, WHOLE, cut=partial(_cut, shift=shift, turned=True))


def read_split(
    decoder: Decoder, count: int, counts: Array, dtype: np.dtype[np.unsignedinteger]
) -> Array:
    """Values whose upper bytes were coded by how often they occur."""
    width = 8 * dtype.itemsize
    turned = decoder.symbols(count, frequencies(counts)).astype(dtype) << dtype.type(width - 8)
    if width > 8:
        turned |= decoder.pieces(count, BYTE).astype(dtype) << dtype.type(width - 16)
    for shift in range(0, width - 16, 16):
        turned |= decoder.pieces(count, WHOLE).astype(dtype) << dtype.type(shift)
    values: Array = (turned >> dtype.type(1)) | (turned << dtype.type(width - 1))
    return values


def _cut(values: Array, *, shift: int, turned: bool, choices: int = WHOLE) -> Array:
    """A piece of values from a bit on, after a rotation to the left by one if wanted: then exponents of floats lead."""
    kind, width = values.dtype.type, 8 * values.itemsize
    whole = (values << kind(1)) | (values >> kind(width - 1)) if turned else values
    piece: Array = (whole >> kind(shift)) & kind(min(choices - 1, (1 << width) - 1))
    return piece.astype(np.uint16)
