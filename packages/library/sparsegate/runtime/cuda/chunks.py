"""Packs the kept weights of a layer into records of chunks, for the kernel for one image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


BANKS = 32
"""Banks of shared memory. Each is four bytes wide, which is two inputs. A warp has 32 threads."""


def bank(column: Numbers) -> Numbers:
    """Returns the bank that holds an input of two bytes.

    >>> bank(np.array([0, 1, 2, 64])).tolist()
    [0, 0, 1, 0]
    """
    return column // 2 % BANKS


def deal(
    row_of: Numbers, thread: Numbers, column: Numbers, chunk_size: int
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Assigns words to threads with few bank conflicts.

    In each step, the threads of a warp take one word after another. A thread takes a word from a
    bank that no other thread has taken in this step, or from the bank with most words left. A
    thread whose row has no word left repeats one of its words.

    Args:
        row_of: the row of every thread, -1 for threads without a row.
        thread: for every word, a thread of its row in its warp.
        column: the column of every word.
        chunk_size: words per thread.

    Returns:
        For every thread the indices of its words, -1 if it has no row, and a mask that is false
        for repeated words.
    """
    pool = _Pool(row_of.reshape(-1, BANKS), thread, column)
    chosen = np.full((len(pool.own), chunk_size, BANKS), -1, np.int64)
    is_word = np.zeros(chosen.shape, np.bool_)
    for step in range(chunk_size):
        free = np.ones((len(pool.own), BANKS), np.bool_)
        for turn in range(BANKS):
            lane = (5 * turn + step) % BANKS  # a different row chooses first in every step
            chosen[:, step, lane], is_word[:, step, lane] = pool.take(lane, free)
    return (
        chosen.swapaxes(1, 2).reshape(-1, chunk_size),
        is_word.swapaxes(1, 2).reshape(-1, chunk_size),
    )


class _Pool:
    """The remaining words of every row, by warp and bank."""

    def __init__(self, row_of: Numbers, thread: Numbers, column: Numbers) -> None:
        keys, piece = np.unique(
            row_of[thread // BANKS, thread % BANKS] + (thread // BANKS << 32), return_inverse=True
        )
        keys = np.append(keys, np.iinfo(np.int64).max)  # the last key: threads without words
        self.order = np.append(np.lexsort((bank(column), piece)), -1)
        self.all = np.zeros((len(keys), BANKS), np.int64)
        np.add.at(self.all, (piece, bank(column)), 1)
        self.start = (self.all.ravel().cumsum() - self.all.ravel()).reshape(-1, BANKS)
        self.taken = np.zeros_like(self.all)
        key = row_of + (np.arange(len(row_of))[:, None] << 32)
        found = np.searchsorted(keys, key)
        self.own = np.where((row_of >= 0) & (keys[found] == key), found, len(keys) - 1)
        self.warp = np.arange(len(row_of))

    def take(self, lane: int, free: npt.NDArray[np.bool_]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Takes one word for a lane of every warp and marks its bank as taken.

        Returns the indices of the words, and whether each is taken for the first time.
        """
        own = self.own[:, lane]
        every, left = self.all[own], self.all[own] - self.taken[own]
        fresh = (left + (left > 0) * free * (1 << 20)).argmax(1)
        again = ((every > 0) * (1 + free)).argmax(1)
        is_word, is_any = left[self.warp, fresh] > 0, every[self.warp, again] > 0
        where = np.where(is_word, fresh, again)
        index = self.start[own, where] + np.where(is_word, self.taken[own, where], 0)
        self.taken[own[is_word], where[is_word]] += 1
        free[self.warp[is_any], where[is_any]] = False
        return self.order[np.where(is_any, index, -1)], is_word
