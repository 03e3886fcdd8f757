"""Divides rows, sorted by their number of kept weights, into a few bands of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

NUM_BANDS = 8
"""Bands of a layer. Kernels get them as arguments, which is faster than reading a table."""
QUANTUM = 4
"""Every width is a multiple of it, so that a thread can load this many words at once."""
MAX_LEVELS = 128  # widths that are tried as ends of bands


@dataclass(frozen=True)
class Band:
    """Consecutive sorted rows that have room for `width` words each."""

    row: int
    """First row."""
    rows: int
    """Number of rows; 0 for an unused band."""
    width: int
    """Words of each row, with padding."""
    start: int
    """Index of the first word."""


def make_bands(counts: npt.NDArray[np.int64], *, step: int = 1) -> tuple[Band, ...]:
    """Chooses the bands with the least padding.

    >>> counts = np.array([100, 99, 8, 7, 0])
    >>> [(band.rows, band.width) for band in make_bands(counts) if band.rows]
    [(2, 100), (2, 8), (1, 0)]
    >>> [(band.rows, band.width) for band in make_bands(counts, step=4) if band.rows]
    [(4, 100), (1, 0)]

    Args:
        counts: words of every row, in descending order.
        step: the number of rows of a band is a multiple of it, except for the last band.
    """
    widths = np.repeat(-(-counts[::step] // QUANTUM) * QUANTUM, step)[: len(counts)]
    firsts = _ends(widths) if len(counts) else []
    bands, start = [], 0
    for first, end in pairwise([*firsts, len(counts)]):
        width = int(widths[first])
        bands.append(Band(first, end - first, width, start))
        start += (end - first) * width
    unused = Band(len(counts), 0, 0, start)
    return tuple(bands + [unused] * (NUM_BANDS - len(bands)))


def _ends(widths: npt.NDArray[np.int64]) -> list[int]:
    """Finds the first rows of the best bands by dynamic programming.

    Only rows at which the width falls can begin a band.
    """
    falls = np.flatnonzero(np.diff(widths, prepend=-1))
    if len(falls) > MAX_LEVELS:
        falls = falls[np.unique(np.linspace(0, len(falls) - 1, MAX_LEVELS).astype(np.int64))]
    ends = np.append(falls, len(widths))
    width = widths[falls]
    # words[i, j]: a band from level i up to, not including, level j
    words = (ends[None, :] - falls[:, None]) * width[:, None].astype(np.float64)
    words[ends[None, :] <= falls[:, None]] = np.inf
    best, chosen = words[0], [np.zeros(len(ends), np.int64)]
    for _ in range(min(NUM_BANDS, len(falls)) - 1):
        total = best[: len(falls), None] + words
        total[0] = words[0]  # fewer bands are allowed
        chosen.append(total.argmin(0))
        best = total.min(0)
    return _walk(chosen, falls)


def _walk(chosen: list[npt.NDArray[np.int64]], falls: npt.NDArray[np.int64]) -> list[int]:
    level, firsts = len(falls), []
    for step in reversed(chosen):
        if level == 0:
            break
        level = int(step[level])
        firsts.append(int(falls[level]))
    return firsts[::-1]
