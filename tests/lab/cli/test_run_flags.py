"""A run as flags: the command line describes every run, and no page prints a command that fails."""

import dataclasses
import json
import shlex
from pathlib import Path

import pytest

from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate_lab.cli.train import parse
from sparsegate_lab.methods import METHODS, Dense, LearnedGates, Magnitude
from sparsegate_lab.recipes import RECIPES, STUDENTS
from sparsegate_lab.record import Record
from sparsegate_lab.report.run_folder.baseline import dense_command
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, Stop, Teacher

RESULTS = Path(__file__).parents[3] / "results"
OTHERS = [
    Run(distil=Teacher("runs/a, runs/b", 2.0, 0.9, content="12"), stop=Stop(2.0, 0.5, 98.0)),
    Run(weights="net.pth", new_head=("classifier.6", "fc*"), normalise="imagenet", crop=0.35),
    Run(average=0.999, method=LearnedGates(target=Target(max_drop=0.3, listen=True))),
    Run(method=LearnedGates(keeps=(("fc1.*", 0.1), ("conv*", 0.5)), only=(), start=0.25)),
    Run(method=Magnitude(factors=(("conv*", 0.5),)), flip=True, compile=True, lr=1e-07),
    Run(method=LearnedGates(penalty=Penalty(count=1e-5, per="layer")), data="-odd folder"),
]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_comes_back_from_its_flags(name):
    run = RECIPES[name]()
    assert parse(run.to_flags()).run == run


@pytest.mark.parametrize("name", STUDENTS)
def test_the_run_of_a_student_comes_back_from_its_flags(name):
    run = STUDENTS[name]().member.run
    assert parse(run.to_flags()).run == run


@pytest.mark.parametrize("name", METHODS)
def test_the_defaults_of_a_method_need_no_flags(name):
    run = Run(model="lenet300", method=METHODS[name]())
    assert run.to_flags() == ["lenet300", "--method", name]


@pytest.mark.parametrize("run", OTHERS, ids=range(len(OTHERS)))
def test_settings_of_every_kind_come_back(run):
    assert parse(run.to_flags()).run == run


@pytest.mark.parametrize("name", RECIPES)
def test_the_command_for_the_dense_run_of_a_recipe_can_be_parsed(name):
    run = RECIPES[name]()
    verb, *words = shlex.split(dense_command(run.to_json(), Path("my runs")))[1:]
    assert verb == "train"
    command = parse(words)
    dense = dataclasses.replace(run, method=Dense(), stop=Stop(), average=None)
    assert (command.run, command.folder) == (dense, Path("my runs"))


def records():
    """The records under results/, one of each study."""
    for path in sorted(RESULTS.glob("*.json")):
        value = json.loads(path.read_text())
        if isinstance(value, dict) and "derived" in value:
            yield path.stem, Record.from_json(value)
        elif isinstance(value, dict) and "derived" in (value.get("records") or [{}])[0]:
            yield path.stem, Study.load(path).records[0]


@pytest.mark.parametrize("record", [pytest.param(each, id=name) for name, each in records()])
def test_the_command_for_the_dense_run_of_a_committed_record_can_be_parsed(record):
    command = dense_command(record.run, Path("runs"))
    assert parse(shlex.split(command)[2:]).run.method == Dense()


def test_a_run_of_another_version_has_no_command():
    assert dense_command({"model": "lenet5", "method": {"name": "dense"}, "hue": 3}, Path()) == ""
