"""The recipes with a teacher are those whose results are kept."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from sparsegate_lab.batched import check_agreement
from sparsegate_lab.paper import PUPILS
from sparsegate_lab.paper.recipes.small import APART
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", list(PUPILS))
def test_a_result_was_made_by_its_recipe(name):
    pupil, study = PUPILS[name](), Study.load(RESULTS / f"{name}.json")
    assert study.title == PUPILS[name].__doc__
    assert [record.run["seed"] % APART for record in study.records] == [0, 1, 2, 3, 4]
    for record in study.records:
        assert record.run["seed"] in [
            each.run.seed for each in pupil.field(record.run["seed"] % APART)
        ]
        assert Run.from_json(record.run) == dataclasses.replace(
            pupil.member.run, seed=record.run["seed"]
        )
        assert 0.99 * pupil.member.most <= record.kept <= pupil.member.most
        assert set(pupil.member.about()) <= set(record.notes)  # what a member has beside its run


def test_networks_that_can_be_are_trained_as_one():
    spec = importlib.util.spec_from_file_location(
        "many_seeds", ROOT / "benchmarks" / "many_seeds.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    names = ("lenet5-300x", "lenet300-68x", "lenet5-500x", "lenet300-100x")
    batches = script.agreeing(
        [list(PUPILS[name]().field(seed)) for name in names for seed in range(2)]
    )
    assert [len(batch) for batch in batches] == [4, 4, 4]
    for batch in batches:
        check_agreement(batch)
    assert len({PUPILS[name]().teachers for name in PUPILS}) == 1
