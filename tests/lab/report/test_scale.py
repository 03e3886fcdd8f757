"""Scales mark what they show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.report.scale import accuracies, counts


@pytest.mark.parametrize(("scale", "top"), [(accuracies, 100.0), (counts, 1e7)])
def test_every_value_lies_between_the_ends_and_a_larger_one_higher(scale, top):
    @given(st.lists(st.floats(0, top), min_size=1, max_size=9))
    def check(values):
        made = scale(values)
        shares = [made.share(value) for value in sorted(values)]
        assert shares == sorted(shares)
        assert all(0 <= share <= 1 for share in shares)
        assert 2 <= len(made.ticks) <= 8
        assert made.low <= max(1, min(values)) or scale is accuracies
        assert sorted(made.ticks) == list(made.ticks)

    check()


def test_accuracies_that_hardly_differ_get_fine_marks():
    assert accuracies([99.34, 99.34]).ticks[0] < 99.34 < accuracies([99.34, 99.34]).ticks[-1]
    assert accuracies([98.0, 100.0]).ticks[-1] <= 100
    assert len(accuracies([100.0]).ticks) >= 2
