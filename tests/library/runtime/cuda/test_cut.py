"""Rows cut into programs with as many chunks each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.runtime.cuda.cut import Cut, begins, choose_cut, fullest

CONNECTED = ((4096, 25088, 0.999), (4096, 9216, 0.965), (4096, 4096, 0.94))
CONNECTED += ((4096, 4096, 0.9901), (1000, 4096, 0.897), (1000, 4096, 0.7))


def counts_of(rows, columns, sparsity, uneven):
    """Words of rows in which every weight is kept by chance."""
    generator = np.random.default_rng(0)
    keep = (1 - sparsity) * (generator.exponential(size=rows) if uneven else np.ones(rows))
    return generator.binomial(columns, keep.clip(max=1))


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.integers(1, 12),
    st.sampled_from([1, 4]),
)
def test_programs_take_consecutive_rows_and_no_cut_has_a_fuller_program_less_full(
    counts, programs, each
):
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


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("layer", CONNECTED)
def test_large_layers_are_cut_for_all_multiprocessors_even_if_their_rows_differ(layer, uneven):
    counts = counts_of(*layer, uneven)
    cut = choose_cut(counts, layer[1], 132)
    assert cut is not None
    assert cut.programs == 132
    most = fullest(cut.sizes(counts), begins(cut, counts))
    assert most <= cut.threads
    assert most * cut.chunk_size * cut.programs < 1.3 * counts.sum()


@pytest.mark.parametrize("longest", [1, 5, 16, 200])
@pytest.mark.parametrize(
    "cut", [Cut(1, 16, 2, 32), Cut(1, 1, 24, 64), Cut(1, 16, 4, 8), Cut(1, 16, 8, 64)]
)
def test_all_chunks_of_a_row_have_a_place_where_they_are_added_up(cut, longest):
    far, lanes, near = cut.sums(longest, 4096)
    assert longest <= far * lanes * near < 2 * longest
    assert lanes * cut.rows <= max(cut.threads, cut.rows)


def test_what_does_not_fit_is_not_cut():
    assert choose_cut(np.full(4096, 322), 40_000, 132) is None
    assert choose_cut(np.zeros(0, np.int64), 100, 132) is None
    assert choose_cut(np.full(4096, 9216), 9216, 132) is None
    one_is_long = np.append(np.full(4095, 20), 30_000)
    assert choose_cut(one_is_long, 32_000, 132) is None


def test_small_layers_are_not_cut():
    assert choose_cut(np.full(300, 100), 784, 132) is None
    assert choose_cut(np.append(np.full(299, 10), 784), 784, 132) is None
