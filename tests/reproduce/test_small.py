"""The recipes with a teacher are those whose results are kept."""

import dataclasses
from pathlib import Path

import pytest

from sparsegate.many import check_agreement
from sparsegate.reproduce import PUPILS
from sparsegate.reproduce.recipes.small import APART
from sparsegate.study import Study
from sparsegate.train import Run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", list(PUPILS))
def test_a_result_was_made_by_its_recipe(name):
    pupil, study = PUPILS[name](), Study.load(RESULTS / f"{name}.json")
    assert study.title == PUPILS[name].__doc__
    assert [record.run["seed"] % APART for record in study.records] == [0, 1, 2, 3, 4]
    for record in study.records:
        assert record.run["seed"] in [each.run.seed for each in pupil.field(record.run["seed"] % APART)]
        assert Run.from_json(record.run) == dataclasses.replace(pupil.member.run, seed=record.run["seed"])
        assert 0.99 * pupil.member.most <= record.kept <= pupil.member.most


def test_networks_that_can_be_are_trained_as_one():
    check_agreement([member for name in ("lenet300-68x", "lenet300-100x") for member in PUPILS[name]().field(0)])
    check_agreement([member for seed in range(5) for member in PUPILS["lenet5-300x"]().field(seed)])
    assert len({PUPILS[name]().teachers for name in PUPILS}) == 1
