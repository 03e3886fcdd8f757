"""Factors stay between zero and one, and begin and end where they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.schedule import Gradual, Rounds, cosine, ramp

PROGRESS = st.floats(0, 1)
LENGTH = st.floats(0.01, 1)


@given(PROGRESS, LENGTH)
def test_factors_stay_in_the_unit_interval(progress, length):
    assert 0 <= cosine(progress, until=length) <= 1
    assert 0 <= ramp(progress, over=length) <= 1


@given(PROGRESS, PROGRESS, LENGTH)
def test_cosine_never_rises_and_ramp_never_falls(one, other, length):
    early, late = sorted([one, other])
    assert cosine(early, until=length) >= cosine(late, until=length)
    assert ramp(early, over=length) <= ramp(late, over=length)


@given(LENGTH, st.floats(1, 3))
def test_cosine_is_zero_and_ramp_one_from_their_end_on(length, factor):
    assert cosine(length * factor, until=length) == 0
    assert ramp(length * factor, over=length) == 1


def test_cosine_begins_at_one_and_ramp_at_zero():
    assert cosine(0.0) == 1
    assert ramp(0.0, over=0.5) == 0


@pytest.mark.parametrize(
    ("progress", "factor"), [(0.0, 1.0), (0.2, 0.75), (0.3, 0.5), (0.4, 0.25), (0.6, 0.0)]
)
def test_cosine_is_half_a_cosine(progress, factor):
    assert cosine(progress, until=0.6) == pytest.approx(
        factor
    )  # (1 + cos(pi/3)) / 2 = 0.75 at a third


def test_ramp_is_a_straight_line():
    assert [ramp(progress, over=0.4) for progress in (0.1, 0.2, 0.3)] == pytest.approx(
        [0.25, 0.5, 0.75]
    )


@given(PROGRESS)
def test_a_ramp_over_nothing_is_always_one(progress):
    assert ramp(progress, over=0.0) == 1


@given(st.floats(0.01, 1))
def test_a_cosine_until_nothing_is_zero_ever_after(progress):
    assert cosine(progress, until=0.0) == 0


def test_cuts_are_due_at_even_distances_and_never_less_than_before():
    rounds = Rounds(count=3, begin=0.3, end=0.7)
    assert [rounds.due(progress) for progress in (0.0, 0.29, 0.3, 0.49, 0.5, 0.7, 1.0)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        3,
    ]


def test_a_moment_that_rounding_misses_is_not_a_whole_epoch_late():
    rounds = Rounds(count=2, begin=0.1, end=0.3)
    assert rounds.due(3 * 0.1 - 1e-12) == 2


def test_one_round_is_at_its_beginning():
    assert [Rounds(count=1, begin=0.5).due(progress) for progress in (0.4, 0.5)] == [0, 1]


def test_the_learning_rate_starts_anew_after_the_first_cut():
    rounds = Rounds(begin=0.5, end=0.5, retrain=0.1)
    assert rounds.lr_factor(0.0) == 1.0
    assert rounds.lr_factor(0.499) < 0.001
    assert rounds.lr_factor(0.5) == 0.1
    assert rounds.lr_factor(1.0) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "settings", [{"count": 0}, {"begin": 0.0}, {"begin": 0.7, "end": 0.6}, {"retrain": 0.0}]
)
def test_rounds_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        Rounds(**settings)


@given(PROGRESS, PROGRESS, st.floats(0.01, 1))
def test_a_gradual_fall_never_rises_and_ends_at_what_is_wanted(one, other, keep):
    gradual, (early, late) = Gradual(begin=0.2, end=0.6), sorted([one, other])
    assert keep <= gradual.keep(late, of=keep) <= gradual.keep(early, of=keep) <= 1 + 1e-12
    assert gradual.keep(0.2, of=keep) == pytest.approx(1.0)
    assert gradual.keep(0.6, of=keep) == pytest.approx(keep)
