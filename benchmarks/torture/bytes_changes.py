"""Damages files as bytes, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Change = Callable[[Random, bytes, list[bytes]], bytes]
"""Makes a damaged file of a file; it may use parts of others of the same kind."""


def flipped(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """Some bits are changed, near the beginning or anywhere."""
    if not file:
        return file
    content = bytearray(file)
    end = draw.choice((len(file), min(300, len(file)), min(64, len(file))))
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        content[draw.randrange(end)] ^= 1 << draw.randrange(8)
    return bytes(content)


def overwritten(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """A few bytes become random, zero or all ones."""
    begin, length = draw.randrange(len(file) + 1), draw.choice((1, 2, 4, 8, 30))
    middle = draw.choice((draw.randbytes(length), bytes(length), b"\xff" * length))
    return (file[:begin] + middle + file[begin + length :])[: len(file)]


def cut(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """The end is missing, or a piece out of the middle."""
    begin = draw.randrange(len(file) + 1)
    return file[:begin] + (file[begin + draw.randrange(1, 99) :] if draw.random() < 0.5 else b"")


def inserted(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """A few bytes are inserted, new ones or a piece of the file itself."""
    place, length = draw.randrange(len(file) + 1), draw.choice((1, 2, 4, 8, 30))
    begin = draw.randrange(len(file) + 1)
    piece = draw.choice((draw.randbytes(length), file[begin : begin + length]))
    return file[:place] + piece + file[place:]


def spliced(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """The start of one file and the end of another."""
    other = draw.choice(others)
    return file[: draw.randrange(len(file) + 1)] + other[draw.randrange(len(other) + 1) :]


PLAIN: tuple[Change, ...] = (flipped, flipped, overwritten, cut, inserted, spliced)
