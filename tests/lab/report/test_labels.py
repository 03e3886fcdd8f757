"""Names stand beside their dots, and none over another."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.report.labels import DOT, HIGH, NEAR, WIDE, label_spots

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
