"""Banks: the order of a row's words in which the threads of a warp read different banks of shared memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

BANKS = 32
"""Of shared memory, each four bytes wide: two inputs. A warp has as many threads."""


def bank(column: Numbers) -> Numbers:
    """Where an input of two bytes lies.

    >>> bank(np.array([0, 1, 2, 64])).tolist()
    [0, 0, 1, 0]
    """
    return column // 2 % BANKS


def deal(
    row_of: Numbers, thread: Numbers, column: Numbers, each: int
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """For every thread, `each` numbers of words of its row that lie in its warp, and which of them are not repetitions.

    `row_of` has the row of every thread, -1 for those without; `thread` is one of a word's row in the word's warp. In
    each step the threads of a warp, in turns, take a word from a bank that no other has taken, or from the one of which
    most are left. A thread whose row has run out repeats one of its words; one without a row gets -1.
    """
    pool = _Pool(row_of.reshape(-1, BANKS), thread, column)
    chosen = np.full((len(pool.own), each, BANKS), -1, np.int64)
    is_word = np.zeros(chosen.shape, np.bool_)
    for step in range(each):
        free = np.ones((len(pool.own), BANKS), np.bool_)
        for turn in range(BANKS):
            lane = (5 * turn + step) % BANKS  # not always the same rows first
            chosen[:, step, lane], is_word[:, step, lane] = pool.take(lane, free)
    return chosen.swapaxes(1, 2).reshape(-1, each), is_word.swapaxes(1, 2).reshape(-1, each)


class _Pool:
    """The words of every row in every warp that has some of it, by bank."""

    def __init__(self, row_of: Numbers, thread: Numbers, column: Numbers) -> None:
        keys, piece = np.unique(
            row_of[thread // BANKS, thread % BANKS] + (thread // BANKS << 32), return_inverse=True
        )
        keys = np.append(keys, np.iinfo(np.int64).max)  # the last: of threads without words
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
        """One word for a lane of every warp, and whether it is a new one; marks its bank as taken."""
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
