"""A registry reads like a mapping, and answers a wrong name with the right ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_runtime.registry import Registry

FRUIT = Registry("fruit", {"apple": 1, "pear": 2})


def test_a_registry_reads_like_its_mapping():
    assert dict(FRUIT) == {"apple": 1, "pear": 2}
    assert len(FRUIT) == 2
    assert "pear" in FRUIT
    assert "plum" not in FRUIT


def test_a_near_miss_is_answered_with_the_name_that_was_meant():
    with pytest.raises(
        ValueError, match=r"^unknown fruit 'aple'; did you mean 'apple'\? known: apple, pear$"
    ):
        FRUIT["aple"]


def test_a_far_miss_is_answered_with_all_names():
    with pytest.raises(ValueError, match=r"^unknown fruit 'zzz'; known: apple, pear$"):
        FRUIT["zzz"]


@given(st.text().filter(lambda name: name not in FRUIT))
def test_every_unknown_name_is_a_value_error_that_repeats_it(name):
    with pytest.raises(ValueError, match="known: apple, pear") as caught:
        FRUIT[name]
    assert repr(name) in str(caught.value)


def test_changing_the_given_entries_does_not_change_the_registry():
    entries = {"apple": 1}
    registry = Registry("fruit", entries)
    entries["plum"] = 3
    assert list(registry) == ["apple"]


def test_a_registry_cannot_be_written_to():
    with pytest.raises(TypeError):
        FRUIT["plum"] = 3
