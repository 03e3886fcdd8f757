"""Ways are timed side by side, after a first call that does not count."""

import time
from itertools import groupby

import pytest

from sparsegate.runtime import interleaved


def test_the_order_of_times_is_that_of_the_work():
    times = interleaved({"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.01)}, seconds=0.05)
    assert 0.001 <= times["short"] < times["long"]


def test_the_first_call_does_not_count():
    calls = []

    def slow_at_first():
        calls.append(None)
        if len(calls) == 1:
            time.sleep(0.2)

    assert interleaved({"way": slow_at_first}, seconds=0.05)["way"] < 0.1


def test_one_slow_call_does_not_move_the_median():
    calls = []

    def slow_once():
        calls.append(None)
        time.sleep(0.3 if len(calls) == 4 else 0.003)

    assert interleaved({"way": slow_once}, seconds=0.1, least=5)["way"] < 0.1


def turns(**settings):
    """Whose turn it was, of two ways that are slow enough to be called a few times only."""
    calls = []
    ways = {name: lambda name=name: (calls.append(name), time.sleep(0.003)) for name in "ab"}
    interleaved(ways, **settings)
    return "".join(name for name, _ in groupby(calls))


def test_ways_take_turns():
    assert turns(seconds=0.02, least=3) == "ab" * 4  # the first round is for warming


@pytest.mark.parametrize(("seconds", "rounds"), [(0.02, 3), (1000.0, 7)])
def test_there_are_at_least_and_at_most_so_many_rounds(seconds, rounds):
    assert turns(seconds=seconds, least=3, most=7) == "ab" * (1 + rounds)


def test_what_takes_long_is_not_run_again_and_again():
    calls = []
    interleaved({"way": lambda: (calls.append(None), time.sleep(0.05))}, seconds=0.001, least=100)
    assert len(calls) < 5
