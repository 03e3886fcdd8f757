"""Codes signed numbers, floats and texts as bytes."""

from __future__ import annotations

import math
import struct

from sparsegate_runtime.files import ByteReader, varint

MOST_TEXT = 255


def signed(number: int) -> bytes:
    """A whole number that may be negative.

    >>> signed(-1).hex(), signed(1).hex()
    ('01', '02')
    """
    return varint(2 * number if number >= 0 else -2 * number - 1)


def read_signed(reader: ByteReader, most: int) -> int:
    """A whole number from -most to most."""
    code = reader.varint(2 * most)
    return code // 2 if code % 2 == 0 else -(code + 1) // 2


def read_byte(reader: ByteReader, most: int, what: str) -> int:
    """A byte that is at most `most`."""
    (number,) = reader.take(1)
    if number > most:
        raise ValueError(f"{what} is {number} before byte {reader.position}, expected 0 to {most}")
    return int(number)


def single(number: float) -> bytes:
    """A number as four bytes."""
    return struct.pack("<f", number)


def read_single(reader: ByteReader) -> float:
    """A number of four bytes, which is not NaN."""
    (number,) = struct.unpack("<f", reader.take(4))
    if math.isnan(number):
        raise ValueError(f"the number before byte {reader.position} is NaN")
    return float(number)


def read_double(reader: ByteReader) -> float:
    """A number of eight bytes, which is finite and not negative."""
    (number,) = struct.unpack("<d", reader.take(8))
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(
            f"the number before byte {reader.position} must be finite, at least 0, got {number}"
        )
    return float(number)


def text(words: str) -> bytes:
    """A text of at most 255 bytes, its length first."""
    raw = words.encode()
    if len(raw) > MOST_TEXT:
        raise ValueError(f"a name must have at most {MOST_TEXT} bytes, got {words[:40]!r}...")
    return varint(len(raw)) + raw


def read_text(reader: ByteReader) -> str:
    """A text that can be printed in one line."""
    words = reader.text(MOST_TEXT)
    if not words.isprintable():
        raise ValueError(f"the name before byte {reader.position} cannot be printed")
    return words
