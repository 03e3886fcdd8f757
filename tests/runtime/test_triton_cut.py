"""Rows cut into programs with as many chunks each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.runtime.triton_cut import Cut, begins, choose_cut, fullest

LAYERS = ((4096, 25088, 0.999), (4096, 9216, 0.965), (1000, 4096, 0.7))
GENERATOR = np.random.default_rng(0)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 12), st.sampled_from([1, 4]))
def test_programs_take_consecutive_rows_and_no_cut_has_a_fuller_program_less_full(counts, programs, each):
    cut = Cut(programs, 1, each, 64)
    firsts = begins(cut, np.array(counts))
    assert firsts[0] == 0
    assert firsts[-1] == len(counts)
    assert (np.diff(firsts) >= 0).all()
    assert (np.diff(firsts) <= cut.rows).all()
    sizes = cut.sizes(np.array(counts))
    most, even = fullest(sizes, firsts), np.linspace(0, len(counts), programs + 1).astype(np.int64)
    assert most <= fullest(sizes, even)
    assert most < -(-sizes.sum() // programs) + max(1, sizes.max())


@pytest.mark.parametrize(
    ("rows", "columns", "sparsity"), [(4096, 25088, 0.999), (4096, 9216, 0.965), (1000, 4096, 0.7)]
)
@pytest.mark.parametrize("uneven", [False, True])
def test_large_layers_are_cut_for_all_multiprocessors_even_if_their_rows_differ(rows, columns, sparsity, uneven):
    keep = (1 - sparsity) * (GENERATOR.exponential(size=rows) if uneven else np.ones(rows))
    counts = GENERATOR.binomial(columns, keep.clip(max=1))
    cut = choose_cut(counts, columns, 132)
    assert cut is not None
    assert cut.programs == 132
    most = fullest(cut.sizes(counts), begins(cut, counts))
    assert most <= cut.threads
    assert most * cut.each * cut.programs < 1.3 * counts.sum()


def test_what_does_not_fit_is_not_cut():
    assert choose_cut(np.full(8, 10), 40_000, 132) is None
    assert choose_cut(np.zeros(8, np.int64), 100, 132) is None
    assert choose_cut(np.full(4096, 9216), 9216, 132) is None


def test_few_words_take_few_programs():
    assert choose_cut(np.full(10, 3), 100, 132) == Cut(1, 1, 1, 16)
