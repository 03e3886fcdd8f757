"""Ways are timed side by side, after a first call that does not count."""

import time

import pytest

from sparsegate.runtime import interleaved


def test_the_order_of_times_is_that_of_the_work():
    times = interleaved(
        {"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.01)}, seconds=0.05
    )
    assert 0.001 <= times["short"] < times["long"]


def test_the_first_call_does_not_count():
    calls = []

    def slow_at_first():
        calls.append(None)
        if len(calls) == 1:
            time.sleep(0.2)

    assert interleaved({"way": slow_at_first}, seconds=0.0, least=5)["way"] < 0.1


def test_one_slow_call_does_not_move_the_median():
    calls = []

    def slow_once():
        calls.append(None)
        time.sleep(0.3 if len(calls) == 3 else 0.003)

    assert interleaved({"way": slow_once}, seconds=0.0, least=5)["way"] < 0.1


def test_ways_take_turns_and_none_always_comes_first():
    calls = []
    ways = {name: lambda name=name: (calls.append(name), time.sleep(0.11)) for name in "ab"}
    interleaved(ways, seconds=0.0, least=3)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"  # the first round is for warming


def test_quick_ways_are_called_in_blocks_of_which_half_counts():
    calls = []
    interleaved({"way": lambda: (calls.append(None), time.sleep(0.004))}, seconds=0.0, least=2)
    assert 1 + 1 + 2 <= len(calls) <= 1 + 1 + 4


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 3), (1000.0, 4)])
def test_there_are_at_least_and_at_most_so_many_rounds(seconds, rounds):
    calls = []
    interleaved(
        {"way": lambda: (calls.append(None), time.sleep(0.11))}, seconds=seconds, least=3, most=4
    )
    assert len(calls) == 1 + rounds
