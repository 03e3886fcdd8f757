"""The frontier holds the runs that no other beats."""

import dataclasses
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsegate_lab.record import Layer
from sparsegate_lab.report.frontier_chart import DOT, HIGH, NEAR, WIDE, frontier, label_spots

PAIRS = st.lists(
    st.tuples(st.integers(1, 100), st.sampled_from([90.0, 95.0, 99.0])), min_size=1, max_size=8
)


def run(record, kept, test):
    return dataclasses.replace(record, layers=(Layer("w", (100,), 100, kept),), test=test)


def test_a_run_with_more_weights_and_less_accuracy_is_behind(record):
    runs = [run(record, *pair) for pair in ((50, 98.0), (10, 97.0), (60, 97.5), (10, 96.0))]
    assert frontier(runs) == [1, 0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PAIRS)
def test_no_run_beats_one_on_the_frontier_and_each_behind_it_is_matched(record, pairs):
    on = frontier([run(record, *pair) for pair in pairs])
    for place, (kept, test) in enumerate(pairs):
        better = [
            other
            for other in pairs
            if other[0] <= kept and other[1] >= test and other != (kept, test)
        ]
        assert not (place in on and better)
        assert any(pairs[other][0] <= kept and pairs[other][1] >= test for other in on)


SPOTS = st.lists(st.tuples(st.floats(60, 330), st.floats(15, 175)), min_size=1, max_size=12)


def test_a_dot_alone_has_its_name_to_the_right():
    assert label_spots([(100.0, 100.0)]) == [(100.0 + NEAR, 100.0)]


def test_at_the_right_edge_the_name_turns_inwards():
    ((x, _),) = label_spots([(348.0, 100.0)])
    assert x <= 352


@given(SPOTS)
def test_names_hide_neither_names_nor_dots(spots):
    names = label_spots(spots)
    for (one, other), (there, another) in combinations(names, 2):
        assert abs(one - there) >= WIDE or abs(other - another) >= HIGH
    for x, y in names:
        assert all(abs(x - dot[0]) >= DOT or abs(y - dot[1]) >= DOT for dot in spots)
