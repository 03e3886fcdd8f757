"""Words of a warp in different banks."""

import numpy as np

from sparsegate.runtime.cuda.banks import BANKS, bank, deal


def wavefronts(columns):
    """Different words in the fullest bank of every step of a warp: [thread, step] to their mean."""
    steps = columns.reshape(-1, BANKS, columns.shape[1]).swapaxes(1, 2).reshape(-1, BANKS) // 2
    return np.mean([np.bincount(np.unique(step) % BANKS).max() for step in steps])


def rows_of_two(each, seed=0):
    """Two warps of two rows each, the second row in both, all chunks full."""
    row_of = np.repeat([0, 1, 1, 2], 16)
    column = np.random.default_rng(seed).integers(0, 5000, len(row_of) * each)
    return row_of, np.repeat(np.arange(len(row_of)), each), column


def test_every_word_is_dealt_once_to_a_thread_of_its_row_and_warp():
    row_of, thread, column = rows_of_two(8)
    chosen, is_word = deal(row_of, thread, column, 8)
    assert is_word.all()
    assert sorted(chosen.ravel()) == list(range(len(column)))
    assert (row_of[thread[chosen]] == row_of[:, None]).all()
    assert (thread[chosen] // BANKS == np.arange(len(row_of))[:, None] // BANKS).all()


def test_fewer_words_of_a_step_share_a_bank_than_by_chance():
    row_of, thread, column = rows_of_two(24)
    chosen, _ = deal(row_of, thread, column, 24)
    assert wavefronts(column.reshape(-1, 24)) > 3
    assert wavefronts(column[chosen]) < 2


def test_a_thread_without_enough_words_repeats_those_of_its_row_and_one_without_a_row_has_none():
    row_of = np.append(np.zeros(3, np.int64), np.full(BANKS - 3, -1))
    chosen, is_word = deal(row_of, np.array([0, 1, 2, 0]), np.array([4, 9, 70, 6]), 2)
    assert is_word[:3].sum() == 4
    assert set(chosen[:3][is_word[:3]]) == {0, 1, 2, 3}
    assert (chosen[:3] >= 0).all()
    assert (chosen[3:] == -1).all()
    assert not is_word[3:].any()


def test_two_neighbouring_inputs_share_a_bank():
    assert bank(np.array([62, 63, 64])).tolist() == [31, 31, 0]
