"""Codes masks whose rows are sorted, which saves the bits of their order in *.sg files."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..types import Array
from .rans import SCALE, WHOLE, Decoder, Encoder

MAX_ROWS = 512
MAX_CELLS = 2**19
"""The most cells of all such masks of a file. Decoding them is slow: one symbol at a time."""


def is_sorted(mask: Array) -> bool:
    """Whether every row, read as a binary number, is at least as large as the row above."""
    packed = [row.tobytes() for row in np.packbits(mask, axis=1)]
    return all(above <= below for above, below in pairwise(packed))


def add_sorted(encoder: Encoder, about: str, mask: Array, one: int) -> None:
    """Adds a mask with sorted rows.

    Among rows that are equal in all columns so far, those with a zero in the next column come
    first, so their number is enough.
    This saves the logarithm of the number of ways to order the rows.
    """

    def ones(begin: int, end: int, column: int) -> int:
        count = int(mask[begin:end, column].sum())
        encoder.add_symbols(about, np.array([count]), np.diff(count_starts(end - begin, one)))
        return count

    alone = _walk(mask.shape, ones)
    encoder.add_bits(about, mask[alone], one)


def read_sorted(decoder: Decoder, shape: tuple[int, int], one: int) -> Array:
    """Reads what `add_sorted` added."""
    mask = np.zeros(shape, bool)

    def ones(begin: int, end: int, column: int) -> int:
        count = decoder.symbol(count_starts(end - begin, one))
        mask[end - count : end, column] = True
        return count

    alone = _walk(shape, ones)
    mask[alone] = decoder.bits(int(alone.sum()), one)
    return mask


@lru_cache(maxsize=1024)
def count_starts(length: int, one: int) -> tuple[int, ...]:
    """The starts of the symbols 0 to `length`, the number of ones among `length` bits; then 65536.

    Their frequencies follow the binomial distribution.

    >>> count_starts(2, 32768)
    (0, 16384, 49152, 65536)
    """
    weight, room = (WHOLE - one) ** length, WHOLE - (length + 1)
    shares = []
    for count in range(length + 1):
        shares.append(1 + (weight * room >> SCALE * length))
        weight = weight * (length - count) * one // ((count + 1) * (WHOLE - one))  # exact
    shares[shares.index(max(shares))] += WHOLE - sum(shares)
    starts = [0]
    for share in shares:
        starts.append(starts[-1] + share)
    return tuple(starts)


def _walk(shape: tuple[int, ...], ones: Callable[[int, int, int], int]) -> Array:
    """Splits groups of equal rows, column by column; returns the cells of rows that are alone."""
    rows, columns = shape
    alone = np.zeros((rows, columns), bool)
    groups = [(0, rows)]
    for column in range(columns):
        halves = []
        for begin, end in groups:
            middle = end - ones(begin, end, column)
            halves += [(begin, middle), (middle, end)]
        for begin, end in halves:
            if end - begin == 1:
                alone[begin, column + 1 :] = True
        groups = [(begin, end) for begin, end in halves if end - begin >= 2]
    return alone
