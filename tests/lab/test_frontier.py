"""A frontier knows which of its members no other beats, and comes back from its file."""

import dataclasses

from sparsegate_lab.frontier import Frontier
from sparsegate_lab.record import Layer, Record

RUN = {"seed": 0, "method": {"name": "learned_gates", "penalty": {"count": 2.5}}}


def record(name: str, kept: int, validation: float, test: float = 50.0) -> Record:
    layers = (Layer("fc.weight", (100, 10), 1000, kept),)
    return Record(name, RUN, "", {}, {}, layers, 10, 10, float(validation), float(test), (), 1.0)


def test_the_best_have_fewer_weights_or_more_accuracy_than_any_other():
    records = [
        record("a", 100, 90),
        record("b", 50, 80),
        record("c", 60, 79),
        record("d", 100, 91),
        record("e", 200, 91),
    ]
    assert [each.name for each in Frontier("", "", tuple(records)).best()] == ["b", "d"]


def test_the_best_are_chosen_by_validation_not_by_test():
    records = (record("a", 50, 90, test=10), record("b", 60, 80, test=99))
    assert [each.name for each in Frontier("", "", records).best()] == ["a"]


def test_a_frontier_comes_back_from_its_file(tmp_path):
    frontier = Frontier("title", "command", (record("a", 100, 90), record("b", 50, 80)))
    frontier.save(tmp_path / "frontier.json")
    assert Frontier.load(tmp_path / "frontier.json") == frontier
    assert dataclasses.asdict(frontier)["title"] == "title"
