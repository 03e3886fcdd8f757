"""Chooses how a sparse layer is divided into programs and chunks, for one image."""

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
"""Pairs of warps and chunk sizes to try, the smallest first.

From 8 on, chunk sizes are multiples of the words that the compiler makes adjacent. On an H200,
half the warps with twice the words are faster, except for the smallest layers in its cache.
"""
MAX_SUMS = 32  # chunks that a thread sums
UNEVEN = 3
"""Ratio of the longest row to the mean. It is up to 1.8 if weights are kept at random."""
FEW_WORDS = 512
"""Words per multiprocessor. Smaller layers use bands; chunks were not timed for them."""


@dataclass(frozen=True)
class Cut:
    """A division of a layer: programs have consecutive rows, and each thread has one chunk."""

    programs: int
    warps: int
    """Warps of a program; each has 32 threads."""
    chunk_size: int
    """Words of a chunk."""
    rows: int
    """Most rows of a program; a power of two."""

    @property
    def threads(self) -> int:
        """Threads of a program, which is also its most chunks."""
        return 32 * self.warps

    def sizes(self, counts: Numbers) -> Numbers:
        """Converts words per row to chunks per row."""
        return -(-counts // self.chunk_size)

    def side(self, num_columns: int) -> int:
        """Number of adjacent words of a thread.

        It follows the compiler's layout, which is that of the inputs if their numbers are equal.
        """
        slots = power_of_two(self.chunk_size)
        return min(8 if slots * self.threads == power_of_two(num_columns) else 4, slots)

    def sums(self, longest: int, num_columns: int) -> tuple[int, int, int]:
        """How the chunks of a row are summed, for rows of at most `longest` chunks.

        Returns the distant chunks of a thread, the threads of a row, and the adjacent chunks of a
        thread. Chunks are adjacent if there are as many as words: the compiler then gives them
        the layout of words.
        """
        room = power_of_two(longest)
        lanes = min(room, max(1, self.threads // self.rows))
        is_as_words = self.rows * room == power_of_two(self.chunk_size) * self.threads
        near = min(room // lanes, self.side(num_columns)) if is_as_words else 1
        return room // (lanes * near), lanes, near


def choose_cut(counts: Numbers, num_columns: int, multiprocessors: int) -> Cut | None:
    """Chooses the cut of a layer.

    >>> choose_cut(np.full(4096, 322), 9216, 132)
    Cut(programs=132, warps=8, chunk_size=48, rows=32)

    Args:
        counts: words of every row.
        num_columns: inputs of the layer.
        multiprocessors: multiprocessors of the GPU.

    Returns:
        None if the layer has too few words, too long rows or too many inputs.
    """
    if num_columns > MAX_INPUTS or counts.sum() < FEW_WORDS * multiprocessors:
        return None
    least = max(8, power_of_two(-(-len(counts) // multiprocessors)))
    # Of uneven rows, the programs with short rows need more of them.
    most = (2 * least,) if is_uneven(counts) else (least, 2 * least)
    cuts = (Cut(multiprocessors, warps, size, rows) for warps, size in SHAPES for rows in most)
    return next((cut for cut in cuts if fits(cut, counts)), None)


def is_uneven(counts: Numbers) -> bool:
    """Whether the longest row has at least `UNEVEN` times the mean number of words.

    >>> is_uneven(np.array([9, 11])), is_uneven(np.array([7, 1, 1, 0]))
    (False, True)
    """
    return int(counts.max(initial=0)) * len(counts) >= UNEVEN * int(counts.sum())


def fits(cut: Cut, counts: Numbers) -> bool:
    """Whether every program of the cut has room for its chunks; `counts` are words per row."""
    sizes = cut.sizes(counts)
    if sizes.sum() > cut.programs * cut.threads:  # no division can fit
        return False
    has_room = cut.rows * power_of_two(int(sizes.max())) <= MAX_SUMS * cut.threads
    firsts = begins(cut, counts)
    has_all = int(firsts[-1]) == len(counts)
    return has_room and has_all and fullest(sizes, firsts) <= cut.threads


def fullest(sizes: Numbers, firsts: Numbers) -> int:
    """Returns the number of chunks of the fullest program.

    >>> fullest(np.array([2, 2, 3]), np.array([0, 2, 3]))
    4

    Args:
        sizes: chunks of every row.
        firsts: the first row of every program, and the number of rows.
    """
    ends = np.append(0, sizes.cumsum())
    return int(np.diff(ends[firsts]).max())


def begins(cut: Cut, counts: Numbers) -> Numbers:
    """Divides rows among programs so that the fullest program has the fewest chunks.

    Returns the first row of every program, and the end of the last program.

    >>> begins(Cut(programs=2, warps=1, chunk_size=1, rows=4), np.array([5, 1, 1, 3]))
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
    """Fills one program after another with as many rows as have room.

    The last number is less than the number of rows if the programs are full before.
    """
    firsts = np.zeros(cut.programs + 1, np.int64)
    for program, following in pairwise(range(cut.programs + 1)):
        first = int(firsts[program])
        reach = int(np.searchsorted(ends, ends[first] + room, "right")) - 1
        firsts[following] = min(reach, first + cut.rows)
    return firsts
