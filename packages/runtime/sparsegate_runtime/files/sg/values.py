"""Codes the values of *.sg files: raw, split into exponent and rest, or by a shared table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..types import Array, item_size
from .bytestream import ByteReader, varint
from .rans import WHOLE, Decoder, Encoder, count_symbols, frequencies
from .shapes import CODES

MAX_TABLE = 256
NOTHING, TIED, RAW, SPLIT, TABLE = 0, 1, 2, 3, 4
"""How the values of a tensor are stored: `TABLE + n` are symbols of table `n`."""
BYTE = 256
VALUES = "values"


@dataclass(frozen=True, eq=False)
class Table:
    """Values that tensors of one type share, in rising order, and how often each occurs."""

    dtype: str
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
        head = bytes([CODES.index(self.dtype)]) + varint(2 * len(self.values) + self.halved)
        return head + stored.tobytes() + b"".join(varint(int(count)) for count in self.counts)

    @classmethod
    def read(cls, reader: ByteReader) -> Table:
        """A table from its side information."""
        (code,) = reader.take(1)
        if code >= len(CODES):
            raise ValueError(f"a table has the unknown type {code}")
        width = item_size(CODES[code])
        head = reader.varint(2 * MAX_TABLE + 1)
        size, halved = head >> 1, head & 1
        stored = width // 2 if halved else width
        if not size or not stored:
            raise ValueError(
                "a table must have values, and only values of two bytes or more can be halved"
            )
        values = np.frombuffer(reader.take(size * stored), f"<u{stored}").astype(f"<u{width}")
        values = values << np.array(4 * width if halved else 0, values.dtype)
        counts = np.array([reader.varint(2**40) for _ in range(size)])
        if (np.diff(values.astype(object)) <= 0).any() or values[0] == 0 or not counts.any():
            raise ValueError(
                "the values of a table must rise from above zero, and one must be used"
            )
        return cls(CODES[code], values, counts)


def split_side(values: Array) -> bytes:
    """The side information of split values: the counts of their upper bytes, after a rotation."""
    counts = split_counts(values)
    upper = np.flatnonzero(counts)
    return varint(len(upper)) + b"".join(
        bytes([int(byte)]) + varint(int(counts[byte])) for byte in upper
    )


def split_counts(values: Array) -> Array:
    """How often each of the 256 upper bytes occurs."""
    return count_symbols(values, BYTE, partial(_cut, shift=8 * values.itemsize - 8, turned=True))


def read_split_side(reader: ByteReader) -> Array:
    """Reads the counts of all 256 upper bytes."""
    counts = np.zeros(256, np.int64)
    for _ in range(reader.varint(256)):
        (byte,) = reader.take(1)
        counts[byte] = reader.varint(2**40)
    if not counts.any():
        raise ValueError("the counts of upper bytes must not all be zero")
    return counts


def add_raw(encoder: Encoder, values: Array) -> None:
    """Adds values in pieces of 16 bits that are all as likely."""
    if values.itemsize == 1:
        encoder.add_pieces(VALUES, values, BYTE)
    for shift in range(0, 8 * values.itemsize - 8, 16):
        encoder.add_pieces(VALUES, values, WHOLE, cut=partial(_cut, shift=shift, turned=False))


def read_raw(decoder: Decoder, count: int, dtype: np.dtype[np.unsignedinteger]) -> Array:
    """Reads what `add_raw` added."""
    if dtype.itemsize == 1:
        return decoder.pieces(count, BYTE).astype(dtype)
    values = np.zeros(count, dtype)
    for shift in range(0, 8 * dtype.itemsize, 16):
        values |= decoder.pieces(count, WHOLE).astype(dtype) << dtype.type(shift)
    return values


def add_split(encoder: Encoder, values: Array) -> None:
    """Adds values whose upper bytes, after a rotation, are coded by how often they occur."""
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
    """Reads what `add_split` added."""
    if dtype.itemsize == 4 and decoder.is_in_c:
        return decoder.split(count, frequencies(counts))
    width = 8 * dtype.itemsize
    turned = decoder.symbols(count, frequencies(counts)).astype(dtype) << dtype.type(width - 8)
    if width > 8:
        turned |= decoder.pieces(count, BYTE).astype(dtype) << dtype.type(width - 16)
    for shift in range(0, width - 16, 16):
        turned |= decoder.pieces(count, WHOLE).astype(dtype) << dtype.type(shift)
    values: Array = (turned >> dtype.type(1)) | (turned << dtype.type(width - 1))
    return values


def _cut(values: Array, *, shift: int, turned: bool, choices: int = WHOLE) -> Array:
    """A piece of every value, from bit `shift` on.

    If `turned`, the values are rotated left by one bit first, so that a float's exponent leads.
    """
    unsigned, width = values.dtype.type, 8 * values.itemsize
    whole = (values << unsigned(1)) | (values >> unsigned(width - 1)) if turned else values
    piece: Array = (whole >> unsigned(shift)) & unsigned(min(choices - 1, (1 << width) - 1))
    return piece.astype(np.uint16)
