"""Orders the words of rows so that the threads of a warp read different banks of shared memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

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
