"""A run may end when it is small and accurate enough, both at once."""

import pytest

from sparsegate_lab.train import Stop


@pytest.mark.parametrize(
    ("kept", "validation", "wanted"),
    [
        (100, 56.7, True),
        (99, 90.0, True),
        (101, 90.0, False),
        (100, 56.69, False),
        (1000, 57.2, False),
    ],
)
def test_both_the_rate_and_the_accuracy_must_be_reached(kept, validation, wanted):
    assert Stop(rate=10.0, drop=0.5).reached(kept, 1000, validation, 57.2) is wanted


def test_without_a_rate_nothing_is_enough():
    assert not Stop().reached(1, 1000, 100.0, 0.0)


@pytest.mark.parametrize(
    ("rate", "drop"), [(0.5, 0.0), (1.0, 0.0), (-1.0, 0.0), (2.0, -0.1), (float("nan"), 0.0)]
)
def test_a_rule_that_cannot_be_is_refused(rate, drop):
    with pytest.raises(
        ValueError, match=r"stop.rate is above 1, or 0 for never, and drop 0 or more"
    ):
        Stop(rate=rate, drop=drop)
