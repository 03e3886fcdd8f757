"""A study finds the records that no other beats, and is read back from its file as it was."""

import json

import pytest

from sparsegate_lab.record import Layer, Record
from sparsegate_lab.study import Study

METHOD = {"name": "learned_gates", "penalty": {"count": 2.5}}
RUN = {"model": "toy", "data": "toys", "seed": 0, "method": METHOD}


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
    assert [each.name for each in Study("", "", tuple(records)).frontier()] == ["b", "d"]


def test_the_best_are_chosen_by_validation_not_by_test():
    records = (record("a", 50, 90, test=10), record("b", 60, 80, test=99))
    assert [each.name for each in Study("", "", records).frontier()] == ["a"]


def test_a_study_comes_back_from_its_file(tmp_path):
    study = Study("title", "command", (record("a", 100, 90), record("b", 50, 80)))
    study.save(tmp_path / "study.json")
    assert Study.load(tmp_path / "study.json") == study
    summary = json.loads((tmp_path / "study.json").read_text())["summary"]
    assert summary["kept"] == {"mean": 75.0, "spread": 35.3553, "low": 50.0, "high": 100.0}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda value: [], "study.json: records: expected a list"),
        (lambda value: value | {"records": 5}, "study.json: records: expected a list"),
        (
            lambda value: value | {"records": [value["records"][0] | {"test": None}]},
            r"study.json: records\[0\].test: expected a number, got null",
        ),
    ],
)
def test_a_damaged_study_is_refused_with_its_file_and_field(change, wanted, tmp_path):
    path = tmp_path / "study.json"
    Study("title", "command", (record("a", 100, 90),)).save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=wanted):
        Study.load(path)
