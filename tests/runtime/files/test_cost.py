"""Costs add up, and the entropy bound is the logarithm of a number of choices."""

from math import comb, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_runtime.files import Cost, position_entropy

bits = st.integers(0, 2**60)
costs = st.builds(Cost, values=bits, indices=bits, other=bits)


@given(costs, costs)
def test_costs_add_by_what_they_say(one, two):
    both = one + two
    assert (both.values, both.indices, both.other) == (
        one.values + two.values,
        one.indices + two.indices,
        one.other + two.other,
    )
    assert both.total == one.total + two.total


@given(costs)
def test_nothing_costs_nothing(cost):
    assert Cost() + cost == cost
    assert Cost().total == 0


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_bound_is_the_logarithm_of_the_number_of_masks(first, second):
    total, kept = max(first, second), min(first, second)
    assert position_entropy(total, kept) == pytest.approx(
        log2(comb(total, kept)), abs=1e-9, rel=1e-12
    )


def test_of_eight_elements_one_is_found_with_three_bits():
    assert position_entropy(8, 1) == pytest.approx(3)  # log2 8


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_keeping_costs_as_much_as_removing(kept, removed):
    assert position_entropy(kept + removed, kept) == pytest.approx(
        position_entropy(kept + removed, removed), abs=1e-6
    )


def test_a_tensor_with_one_choice_needs_no_bits():
    assert [position_entropy(*case) for case in ((0, 0), (5, 0), (5, 5))] == pytest.approx(
        [0, 0, 0], abs=1e-9
    )
