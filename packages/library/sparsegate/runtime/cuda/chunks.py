"""Chunks: the kept weights of a layer as one record for every program, as the kernel for one image reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .banks import bank, deal
from .cut import Cut, Numbers, begins, fullest

LINE = 32
"""Words of a cache line: a record has whole lines."""
Record = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Words:
    """The kept weights of a layer, by row and then by column."""

    row: Numbers
    column: Numbers
    value: npt.NDArray[np.int16]
    """The bits of a number of two bytes."""
    bias: npt.NDArray[np.float32]
    num_columns: int

    @property
    def counts(self) -> Numbers:
        """How many each row has."""
        return np.bincount(self.row, minlength=len(self.bias)).astype(np.int64)


@dataclass(frozen=True)
class Format:
    """What the kernel must know of records."""

    cut: Cut
    used: int
    """Chunks of the fullest program: all others have room for as many."""
    longest: int
    """Chunks of the longest row."""
    lines: int
    """Lines of a record."""
    tail: int
    """Words at the end of a record that are not weights."""


def make(words: Words, cut: Cut) -> tuple[Record, Format]:
    """One record for each program: words in turns of its threads, then biases, first chunks and rows.

    A word is the value above twice its column. Chunks are filled up with zero times an input of the same row.
    """
    place = _Place.of(words, cut)
    weights, rest = _weights(words, cut, place), _rest(words, cut, place)
    lines = -(-(weights.shape[1] + rest.shape[1]) // LINE)
    between = np.zeros((cut.programs, lines * LINE - weights.shape[1] - rest.shape[1]), np.int32)
    longest = int(place.sizes.max(initial=0))
    return np.concatenate([weights, between, rest], 1), Format(
        cut, place.used, longest, lines, rest.shape[1]
    )


@dataclass(frozen=True)
class _Place:
    """Where rows are."""

    begins: Numbers
    """First rows of the programs, and the end."""
    program: Numbers
    """Of every row."""
    first: Numbers
    """Chunk of every row, in its program."""
    sizes: Numbers
    """Chunks of every row."""
    used: int

    @staticmethod
    def of(words: Words, cut: Cut) -> _Place:
        firsts, sizes = begins(cut, words.counts), cut.sizes(words.counts)
        program = np.repeat(np.arange(cut.programs), np.diff(firsts))
        before = np.append(0, sizes.cumsum())
        return _Place(
            firsts, program, before[:-1] - before[firsts[program]], sizes, fullest(sizes, firsts)
        )


def _weights(words: Words, cut: Cut, place: _Place) -> Record:
    """Words of all programs: as many as lie side by side of every thread, then the next of every thread."""
    thread_row = np.full(cut.programs * cut.threads, -1, np.int64)
    start = place.program * cut.threads + place.first
    within = np.arange(place.sizes.sum()) - np.repeat(
        place.sizes.cumsum() - place.sizes, place.sizes
    )
    thread_row[np.repeat(start, place.sizes) + within] = np.repeat(
        np.arange(len(place.sizes)), place.sizes
    )
    thread = start[words.row] + _rank(words) % place.sizes[words.row]
    chosen, is_word = deal(thread_row, thread, words.column, cut.each)
    value = np.where(is_word, np.append(words.value, 0)[chosen], 0).astype(np.int64)
    word: Numbers = (value << 16) | 2 * np.append(words.column, 0)[
        chosen
    ]  # those of no row: zero times an input
    side = cut.side(words.num_columns)
    word = word.reshape(cut.programs, cut.threads, cut.each // side, side)[:, : place.used]
    return word.swapaxes(1, 2).reshape(cut.programs, -1).astype(np.uint32).view(np.int32)


def _rank(words: Words) -> Numbers:
    """Number of a word in its row, by bank, so that every warp of the row has words of all banks."""
    order = np.lexsort((bank(words.column), words.row))
    rank = np.empty_like(words.row)
    counts = words.counts
    rank[order] = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts)
    return rank


def _rest(words: Words, cut: Cut, place: _Place) -> Record:
    """Biases in fp32; first chunks, also of the rows that a program lacks; their end, twice; first row, rows."""
    slot = np.arange(len(place.program)) - place.begins[place.program]
    bias, sizes = (
        np.zeros((cut.programs, cut.rows), np.float32),
        np.zeros((cut.programs, cut.rows + 2), np.int32),
    )
    bias[place.program, slot] = words.bias
    sizes[place.program, slot + 1] = place.sizes
    rows = np.stack([place.begins[:-1], np.diff(place.begins)], 1).astype(np.int32)
    return np.concatenate([bias.view(np.int32), sizes.cumsum(1, dtype=np.int32), rows], 1)
