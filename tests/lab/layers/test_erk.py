"""ERK divides weights among layers by their shapes."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.layers import erk_counts

SHAPES = st.lists(
    st.lists(st.integers(1, 40), min_size=2, max_size=4).map(tuple), min_size=1, max_size=5
)


@given(SHAPES, st.floats(0.001, 1))
def test_no_layer_keeps_more_than_it_has_or_nothing(shapes, keep):
    counts = erk_counts(shapes, keep)
    assert all(1 <= count <= prod(shape) for count, shape in zip(counts, shapes, strict=True))


@given(SHAPES, st.floats(0.001, 1))
def test_the_sum_is_what_was_asked_for_but_for_rounding(shapes, keep):
    wanted = keep * sum(map(prod, shapes))
    assert sum(erk_counts(shapes, keep)) == pytest.approx(wanted, abs=len(shapes))


def test_density_follows_the_sum_of_dimensions_over_their_product():
    one, other = erk_counts([(100, 100), (200, 200)], keep=0.1)
    assert one / 10_000 == pytest.approx(2 * other / 40_000, rel=0.01)


def test_a_small_layer_is_dense_before_a_large_one_is():
    assert erk_counts([(1000, 1000), (10, 10)], keep=0.2) == [199_920, 100]


def test_all_weights_can_be_kept():
    assert erk_counts([(3, 4), (5, 6)], keep=1.0) == [12, 30]
