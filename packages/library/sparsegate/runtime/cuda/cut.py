"""Cuts: how many words of a sparse layer each program and each thread of the GPU multiplies by one image."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .tile import power_of_two

Numbers = npt.NDArray[np.int64]

MAX_INPUTS = 1 << 15
"""A word has 16 bits for the offset, in bytes, of an input of two bytes."""
SHAPES = ((16, 1), (16, 2), (8, 8), (8, 16), (8, 24), (8, 32), (8, 48))
"""Warps, and words of a thread, that are tried, the smallest first; from 8 words on multiples of what the compiler lays
side by side. Half as many warps with twice as many words are faster on an H200, but for the smallest in its cache."""
MAX_SUMS = 32  # chunks that a thread adds up
UNEVEN = 3
"""The longest row against a usual one: up to 1.8 for rows of chance."""
FEW_WORDS = 512
"""For every multiprocessor; smaller layers were not timed against bands and stay there."""


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

    def sums(self, longest: int, num_columns: int) -> tuple[int, int, int]:
        """How rows of at most so many chunks are added up: a thread's chunks far apart, a row's threads, side by side.

        A thread's lie side by side if the compiler lays them out so: as words, if there are as many.
        """
        room = power_of_two(longest)
        lanes = min(room, max(1, self.threads // self.rows))
        is_as_words = self.rows * room == power_of_two(self.each) * self.threads
        near = min(room // lanes, self.side(num_columns)) if is_as_words else 1
        return room // (lanes * near), lanes, near


def choose_cut(counts: Numbers, num_columns: int, multiprocessors: int) -> Cut | None:
    """The cut for rows of so many words, or nothing if they are few, rows too long or the image too large.

    >>> choose_cut(np.full(4096, 322), 9216, 132)
    Cut(programs=132, warps=8, each=48, rows=32)
    """
    if num_columns > MAX_INPUTS or counts.sum() < FEW_WORDS * multiprocessors:
        return None
    least = max(8, power_of_two(-(-len(counts) // multiprocessors)))
    most = (
        (2 * least,) if is_uneven(counts) else (least, 2 * least)
    )  # short rows are taken together
    cuts = (Cut(multiprocessors, warps, each, rows) for warps, each in SHAPES for rows in most)
    return next((cut for cut in cuts if fits(cut, counts)), None)


def is_uneven(counts: Numbers) -> bool:
    """Whether some rows have many times as many words as others.

    >>> is_uneven(np.array([9, 11])), is_uneven(np.array([7, 1, 1, 0]))
    (False, True)
    """
    return int(counts.max(initial=0)) * len(counts) >= UNEVEN * int(counts.sum())


def fits(cut: Cut, counts: Numbers) -> bool:
    """Whether every program of the cut has room for its chunks of rows with so many words."""
    sizes = cut.sizes(counts)
    if sizes.sum() > cut.programs * cut.threads:  # it need not be tried
        return False
    has_room = cut.rows * power_of_two(int(sizes.max())) <= MAX_SUMS * cut.threads
    firsts = begins(cut, counts)
    return has_room and firsts[-1] == len(counts) and fullest(sizes, firsts) <= cut.threads


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
        low, high = (
            (low, middle) if _fill(cut, ends, middle)[-1] == len(counts) else (middle + 1, high)
        )
    return _fill(cut, ends, low)


def _fill(cut: Cut, ends: Numbers, room: int) -> Numbers:
    """First rows, if every program takes as many rows as have room in it; the last is too early if not all have."""
    firsts = np.zeros(cut.programs + 1, np.int64)
    for program, following in pairwise(range(cut.programs + 1)):
        first = int(firsts[program])
        reach = int(np.searchsorted(ends, ends[first] + room, "right")) - 1
        firsts[following] = min(reach, first + cut.rows)
    return firsts
