"""A frontier becomes a table and a picture."""

import dataclasses
from importlib.util import find_spec

import pytest

from sparsegate_lab.record import Layer, Record
from sparsegate_lab.report import frontier_table, plot_frontier
from sparsegate_lab.report.table import comma_separated
from sparsegate_lab.study import Study


def record(name: str, price: float, kept: int, validation: float) -> Record:
    run = {"seed": 3, "method": {"name": "learned_gates", "penalty": {"count": price}}}
    return Record(
        name,
        run,
        "",
        {},
        {},
        (Layer("fc.weight", (100, 10), 1000, kept),),
        10,
        5,
        float(validation),
        88.5,
        (),
        1.0,
    )


FRONTIER = Study(
    "LeNet", "", (record("a", 1, 100, 90), record("b", 4.5, 50, 80), record("c", 4, 60, 70))
)


def test_a_row_for_every_member_fewest_weights_first_the_best_with_a_star():
    _, *rows = frontier_table(FRONTIER)
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("4.5", "50", "*"),
        ("4", "60", ""),
        ("1", "100", "*"),
    ]
    assert rows[0][3:7] == ("20.0", "18.4", "80.00", "88.50")  # 1010 / 55


def test_targets_take_the_place_of_prices():
    run = {"seed": 3, "method": {"name": "learned_gates", "target": {"keep": 0.05, "path": None}}}
    study = Study("x", "", (dataclasses.replace(record("a", 1, 50, 90), run=run),))
    heads, row = frontier_table(study)
    assert (heads[0], row[0]) == ("target", "keep 0.05")


def test_the_table_is_a_csv():
    assert (
        comma_separated(frontier_table(FRONTIER)).splitlines()[1]
        == "4.5,3,50,20.0,18.4,80.00,88.50,*"
    )


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_the_picture_is_drawn_twice(tmp_path):
    paths = plot_frontier(FRONTIER, tmp_path / "frontier.json")
    assert [path.name for path in paths] == ["frontier.svg", "frontier.png"]
    assert "LeNet" in paths[0].read_text() or paths[0].stat().st_size > 1000
    assert paths[1].read_bytes()[:4] == b"\x89PNG"
