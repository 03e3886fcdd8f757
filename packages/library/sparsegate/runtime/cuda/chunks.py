"""Packs the kept weights of a layer into records of chunks, for the kernel for one image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .banks import bank, deal
from .cut import Cut, Numbers, begins, fullest

LINE = 32
"""32-bit numbers in a cache line. A record fills whole lines."""
Record = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Words:
    """The kept weights of a layer, sorted by row and then by column."""

    row: Numbers
    column: Numbers
    value: npt.NDArray[np.int16]
    """The bits of bf16 or fp16 numbers."""
    bias: npt.NDArray[np.float32]
    num_columns: int

    @property
    def counts(self) -> Numbers:
        """Words of every row."""
        return np.bincount(self.row, minlength=len(self.bias)).astype(np.int64)


@dataclass(frozen=True)
class RecordSizes:
    """Sizes of the records, for the kernel that reads them."""

    cut: Cut
    used: int
    """Chunks of the fullest program. Every record has room for this many."""
    longest: int
    """Chunks of the longest row."""
    lines: int
    """Cache lines of a record."""
    tail: int
    """Numbers at the end of a record that are not words."""


def make(words: Words, cut: Cut) -> tuple[Record, RecordSizes]:
    """Makes one record per program: words interleaved by thread, biases, first chunks and rows.

    The upper half of a word is its value, the lower half is twice its column. Chunks are padded
    with zeros at a column of the same row.
    """
    layout = _Layout.of(words, cut)
    weights, rest = _weights(words, cut, layout), _rest(words, cut, layout)
    lines = -(-(weights.shape[1] + rest.shape[1]) // LINE)
    between = np.zeros((cut.programs, lines * LINE - weights.shape[1] - rest.shape[1]), np.int32)
    longest = int(layout.sizes.max(initial=0))
    return np.concatenate([weights, between, rest], 1), RecordSizes(
        cut, layout.used, longest, lines, rest.shape[1]
    )


@dataclass(frozen=True)
class _Layout:
    """The program and the chunks of every row."""

    begins: Numbers
    """The first row of every program, and the number of rows."""
    program: Numbers
    """The program of every row."""
    first: Numbers
    """The first chunk of every row, counted in its program."""
    sizes: Numbers
    """The number of chunks of every row."""
    used: int

    @staticmethod
    def of(words: Words, cut: Cut) -> _Layout:
        firsts, sizes = begins(cut, words.counts), cut.sizes(words.counts)
        program = np.repeat(np.arange(cut.programs), np.diff(firsts))
        before = np.append(0, sizes.cumsum())
        return _Layout(
            firsts, program, before[:-1] - before[firsts[program]], sizes, fullest(sizes, firsts)
        )


def _weights(words: Words, cut: Cut, layout: _Layout) -> Record:
    """Interleaves the words of a program: the first `side` words of every thread, then the next."""
    thread_row = np.full(cut.programs * cut.threads, -1, np.int64)
    start = layout.program * cut.threads + layout.first
    within = np.arange(layout.sizes.sum()) - np.repeat(
        layout.sizes.cumsum() - layout.sizes, layout.sizes
    )
    thread_row[np.repeat(start, layout.sizes) + within] = np.repeat(
        np.arange(len(layout.sizes)), layout.sizes
    )
    thread = start[words.row] + _rank(words) % layout.sizes[words.row]
    chosen, is_word = deal(thread_row, thread, words.column, cut.chunk_size)
    value = np.where(is_word, np.append(words.value, 0)[chosen], 0).astype(np.int64)
    column = np.append(words.column, 0)[chosen]  # a thread without a row reads column 0
    word: Numbers = (value << 16) | 2 * column
    side = cut.side(words.num_columns)
    word = word.reshape(cut.programs, cut.threads, cut.chunk_size // side, side)
    word = word[:, : layout.used]
    return word.swapaxes(1, 2).reshape(cut.programs, -1).astype(np.uint32).view(np.int32)


def _rank(words: Words) -> Numbers:
    """Numbers the words of a row by bank, so that each warp of the row gets words of all banks."""
    order = np.lexsort((bank(words.column), words.row))
    rank = np.empty_like(words.row)
    counts = words.counts
    rank[order] = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts)
    return rank


def _rest(words: Words, cut: Cut, layout: _Layout) -> Record:
    """Makes the tail of the records.

    It has the biases in fp32, the first chunk of every row that fits into a program, the end of
    the chunks twice, the first row, and the number of rows.
    """
    slot = np.arange(len(layout.program)) - layout.begins[layout.program]
    bias = np.zeros((cut.programs, cut.rows), np.float32)
    sizes = np.zeros((cut.programs, cut.rows + 2), np.int32)
    bias[layout.program, slot] = words.bias
    sizes[layout.program, slot + 1] = layout.sizes
    rows = np.stack([layout.begins[:-1], np.diff(layout.begins)], 1).astype(np.int32)
    return np.concatenate([bias.view(np.int32), sizes.cumsum(1, dtype=np.int32), rows], 1)
