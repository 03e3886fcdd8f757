"""Records of chunks, read as the kernel reads them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparsegate.runtime.cuda.chunks import BANKS, LINE, Words, bank, deal, make
from sparsegate.runtime.cuda.cut import Cut

CUTS = (Cut(3, 2, 4, 16), Cut(1, 16, 2, 64), Cut(5, 4, 24, 16), Cut(2, 8, 1, 32))


def layer(num_rows, num_columns, keep, seed):
    """Words of small whole numbers, all different from zero, in rows of uneven lengths."""
    generator = np.random.default_rng(seed)
    mask = generator.random((num_rows, num_columns)) < keep * generator.random((num_rows, 1))
    row, column = mask.nonzero()
    value = generator.integers(1, 100, len(row)).astype(np.int16)
    return Words(
        row, column, value, generator.normal(size=num_rows).astype(np.float32), num_columns
    )


def read(record, form, num_columns):
    """Row, column and value of all words of a program that are not zero, its biases, and its rows."""
    cut, side = form.cut, form.cut.side(num_columns)
    words, tail = record[: form.used * cut.chunk_size], record[len(record) - form.tail :]
    words = (
        words.view(np.uint32)
        .reshape(cut.chunk_size // side, form.used, side)
        .swapaxes(0, 1)
        .reshape(-1, cut.chunk_size)
    )
    bias, firsts = tail[: cut.rows].view(np.float32), tail[cut.rows : 2 * cut.rows + 1]
    begin, rows = tail[2 * cut.rows + 2 :]
    assert (firsts[rows:] == firsts[-1]).all()
    assert np.diff(firsts).max() <= form.longest
    row_of = np.append(
        np.repeat(begin + np.arange(cut.rows), np.diff(firsts)), np.full(form.used - firsts[-1], -1)
    )
    is_word = words >> 16 > 0
    row = np.repeat(row_of[:, None], cut.chunk_size, 1)[is_word]
    return row, (words & 0xFFFF)[is_word] // 2, (words >> 16)[is_word], bias[:rows], begin


@given(
    st.integers(1, 16),
    st.integers(1, 40),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from(CUTS),
    st.integers(0, 9),
)
def test_every_word_and_bias_is_found_again(num_rows, num_columns, keep, cut, seed):
    words = layer(num_rows, num_columns, keep, seed)
    assume(cut.sizes(words.counts).sum() <= cut.threads)
    records, form = make(words, cut)
    assert records.shape == (cut.programs, form.lines * LINE)
    assert (form.lines - 1) * LINE < form.used * cut.chunk_size + form.tail
    found, biases = [], []
    for record in records:
        row, column, value, bias, begin = read(record, form, num_columns)
        assert begin == len(biases)
        found += zip(row, column, value, strict=True)
        biases += bias.tolist()
    assert sorted(found) == list(zip(words.row, words.column, words.value, strict=True))
    assert biases == words.bias.tolist()


@pytest.mark.parametrize("cut", CUTS)
def test_what_fills_a_chunk_is_zero_times_an_input_of_its_own_row(cut):
    words = Words(
        np.array([0, 0, 2]),
        np.array([7, 9, 5]),
        np.array([1, 2, 3], np.int16),
        np.zeros(3, np.float32),
        12,
    )
    records, form = make(words, cut)
    columns = (records[:, : form.used * cut.chunk_size].view(np.uint32) & 0xFFFF) // 2
    assert set(columns.ravel()) <= {7, 9, 5, 0}
    assert (
        np.count_nonzero(columns == 0, 1) % cut.chunk_size == 0
    ).all()  # only whole chunks of no row


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
