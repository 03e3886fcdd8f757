"""Cuts: how many words of a sparse layer each program and each thread of the GPU multiplies by one image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .triton_launch import filled
from .triton_tile import power_of_two

Numbers = npt.NDArray[np.int64]

MAX_INPUTS = 1 << 15
"""A word has 16 bits for the offset, in bytes, of an input of two bytes."""
EACH = (1, 2, 4, 8, 16, 24, 32, 48)
"""Words of a thread that are tried, the fewest first; from 8 on multiples of what the compiler lays side by side."""
MAX_WARPS = 16
FEW_WORDS = 512  # a program has at least as many, if there are


@dataclass(frozen=True)
class Cut:
    """Programs of consecutive rows; a thread has a chunk of words of one row."""

    programs: int
    warps: int
    """Groups of 32 threads of a program."""
    each: int
    """Words of a chunk."""
    rows: int
    """A program has at most so many rows; a power of two."""

    @property
    def threads(self) -> int:
        """Of a program: so many chunks fit into it."""
        return 32 * self.warps

    def sizes(self, counts: Numbers) -> Numbers:
        """Chunks of rows of so many words."""
        return -(-counts // self.each)

    def side(self, num_columns: int) -> int:
        """Words of a thread that lie side by side, as the compiler lays them out: as inputs, if there are as many."""
        slots = power_of_two(self.each)
        return min(8 if slots * self.threads == power_of_two(num_columns) else 4, slots)


def choose_cut(counts: Numbers, num_columns: int, multiprocessors: int) -> Cut | None:
    """The cut for rows of so many words, or nothing if they are too long or the image is too large.

    >>> choose_cut(np.full(4096, 322), 9216, 132)
    Cut(programs=132, warps=16, each=24, rows=64)
    """
    num_words = int(counts.sum())
    if num_columns > MAX_INPUTS or num_words == 0:
        return None
    programs = filled(min(multiprocessors, -(-num_words // FEW_WORDS)), multiprocessors)
    warps = min(MAX_WARPS, power_of_two(-(-num_words // (32 * programs))))
    rows = max(8, power_of_two(3 * len(counts) // (2 * programs)))
    return next(_fitting(counts, programs, warps, rows), None)


def _fitting(counts: Numbers, programs: int, warps: int, rows: int) -> Iterator[Cut]:
    for each in EACH:
        cut = Cut(programs, warps, each, rows)
        if fullest(cut.sizes(counts), begins(cut, counts)) <= cut.threads:
            yield cut


def fullest(sizes: Numbers, firsts: Numbers) -> int:
    """The chunks of the program that has the most, for the first rows of all programs and the end.

    >>> fullest(np.array([2, 2, 3]), np.array([0, 2, 3]))
    4
    """
    ends = np.append(0, sizes.cumsum())
    return int(np.diff(ends[firsts]).max())


def begins(cut: Cut, counts: Numbers) -> Numbers:
    """First rows of all programs, and the end of the last, so that the fullest program has as few chunks as it can.

    >>> begins(Cut(programs=2, warps=1, each=1, rows=4), np.array([5, 1, 1, 3]))
    array([0, 1, 4])
    """
    ends = np.append(0, cut.sizes(counts).cumsum())
    low, high = int(np.diff(ends).max(initial=0)), int(ends[-1])
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _fill(cut, ends, middle)[-1] == len(counts) else (middle + 1, high)
    return _fill(cut, ends, low)


def _fill(cut: Cut, ends: Numbers, room: int) -> Numbers:
    """First rows, if every program takes as many rows as have room in it; the last is too early if not all have."""
    firsts = np.zeros(cut.programs + 1, np.int64)
    for program, following in pairwise(range(cut.programs + 1)):
        first = int(firsts[program])
        reach = int(np.searchsorted(ends, ends[first] + room, "right")) - 1
        firsts[following] = min(reach, first + cut.rows)
    return firsts
