"""A saved plan is resumed with the target it was saved with."""

import pytest

from sparsegate.target import Target
from sparsegate.target.same_target import check_same_target, settings_of


def test_settings_are_plain_values_without_those_that_are_not_given():
    settings = settings_of(Target(keep={"*": 0.1}), steps=100)
    assert settings["steps"] == 100
    assert settings["keep"] == [["*", 0.1]]
    assert "travel" not in settings


def test_another_target_is_refused_and_the_difference_is_named():
    saved = {"asked": settings_of(Target(keep=0.1), steps=100)}
    check_same_target(saved, Target(keep=0.1), steps=100)
    with pytest.raises(ValueError, match=r"another target: steps=100 \(now 200\), keep=0\.1 \(now"):
        check_same_target(saved, Target(keep=0.2), steps=200)


def test_the_state_of_an_older_version_says_nothing_and_passes():
    check_same_target({}, Target(keep=0.1), steps=100)
