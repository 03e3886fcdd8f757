"""The recipes with a teacher are those whose results are kept."""

import dataclasses
from pathlib import Path

import pytest

from sparsegate_lab.batched import check_agreement
from sparsegate_lab.recipes import STUDENTS, agreeing
from sparsegate_lab.recipes.student import SEED_DISTANCE
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", list(STUDENTS))
def test_a_result_was_made_by_its_recipe(name):
    student, study = STUDENTS[name](), Study.load(RESULTS / f"{name}.json")
    assert study.title == STUDENTS[name].__doc__
    assert [record.run["seed"] % SEED_DISTANCE for record in study.records] == [0, 1, 2, 3, 4]
    for record in study.records:
        assert record.run["seed"] in [
            each.run.seed for each in student.candidates(record.run["seed"] % SEED_DISTANCE)
        ]
        assert Run.from_json(record.run) == dataclasses.replace(
            student.member.run, seed=record.run["seed"]
        )
        assert 0.99 * student.member.most <= record.kept <= student.member.most
        assert set(student.member.about()) <= set(record.notes)  # what a member has beside its run


def test_networks_that_can_be_are_trained_as_one():
    names = ("lenet5-300x", "lenet300-68x", "lenet5-500x", "lenet300-100x")
    batches = agreeing(
        [list(STUDENTS[name]().candidates(seed)) for name in names for seed in range(2)]
    )
    assert [len(batch) for batch in batches] == [4, 4, 4]
    for batch in batches:
        check_agreement(batch)
    assert len({STUDENTS[name]().teachers for name in STUDENTS}) == 1
