"""Every exhibit keeps the contract: with all records, with none, and as files."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

import pytest

from sparsegate_lab.paper import EXHIBITS, Archive, make
from sparsegate_lab.paper.exhibit import Exhibit
from sparsegate_lab.paper.exhibits.figure_prior import BOUND, WEIGHTS, normaliser, prior
from sparsegate_lab.paper.fc1_runs import fc1_gated

ROOT = Path(__file__).parents[3]
SEEDS = (0, 1, 2)
NAMES = {
    *(
        "lambda-table",
        "figure-init",
        "figure-lambda1",
        "figure-lambda2",
        "figure-regulariser",
        "figure-prior",
    ),
    *(
        "figure-method",
        "lenet5-layers",
        "lenet5-compare",
        "alexnet-layers",
        "alexnet-compare",
        "vgg16-layers",
    ),
    "vgg16-compare",
}
DRAWINGS = ("figure-regulariser", "figure-prior", "figure-method")
every_exhibit = pytest.mark.parametrize("name", EXHIBITS)


@pytest.fixture(scope="module")
def archive():
    return Archive(results=ROOT / "results")


def test_every_table_and_figure_of_the_paper_has_its_name():
    assert set(EXHIBITS) >= NAMES


@every_exhibit
def test_an_exhibit_says_in_one_line_what_it_is(name):
    assert re.match(r"(Table|Figure|Section) \d.*: ", EXHIBITS[name].title())
    assert "\n" not in EXHIBITS[name].title()


@every_exhibit
def test_an_exhibits_runs_are_planned_without_training_and_differ(name):
    runs = EXHIBITS[name].plan().values()
    assert len({run.name for run in runs}) == len(runs)
    assert all(run.seed == 0 for run in runs)


@every_exhibit
def test_without_records_an_exhibit_says_that_nothing_was_run(name):
    findings = EXHIBITS[name].findings({})
    assert set(findings.verdicts) <= {"not run yet"}
    assert bool(findings.verdicts) == (name not in DRAWINGS)


@pytest.fixture(scope="module")
def made(archive, tmp_path_factory):
    """Every exhibit, written from the committed records."""
    folder = tmp_path_factory.mktemp("reproduced")
    return {
        name: make(name, exhibit, archive.studies(exhibit, SEEDS), folder=folder / name)
        for name, exhibit in EXHIBITS.items()
    }


@every_exhibit
def test_an_exhibit_is_written_as_markdown_csv_and_json(name, made):
    findings = made[name].findings
    page, table, value = (path.read_text() for path in made[name].files[:3])
    assert page.startswith(f"# {findings.title}\n")
    assert len({len(row) for row in csv.reader(io.StringIO(table))}) == bool(
        findings.rows or findings.points
    )
    assert " ± " not in table
    assert json.loads(value)["summary"] == dict(findings.verdicts)
    assert all(each.tolerance.reason in page for each in findings.checks)


@every_exhibit
def test_a_picture_is_drawn_where_there_is_something_to_draw(name, made, archive):
    pytest.importorskip("matplotlib")
    exhibit = EXHIBITS[name]
    studies = archive.studies(exhibit, SEEDS)
    # A curve needs every point; a comparison shows what there is.
    whole = bool(studies) if name.endswith("-compare") else set(exhibit.plan()) <= set(studies)
    assert bool(made[name].pictures) == (exhibit.has_picture() and whole)
    assert all(path.stat().st_size > 5000 for path in made[name].pictures)


def test_an_exhibit_is_abstract_or_final():
    kinds = {type(exhibit) for exhibit in EXHIBITS.values()}
    assert all(kind.__bases__ == (Exhibit,) and dataclasses.is_dataclass(kind) for kind in kinds)


def test_runs_behind_the_table_of_lambdas_gate_fc1_alone_and_pay_from_the_first_step_on():
    for run in EXHIBITS["lambda-table"].plan().values():
        assert run.method.only == ("fc1.*",)
        assert (run.method.ramp, run.method.freeze) == (0.0, 1.0)
    assert fc1_gated(count=1.0).method.penalty.count == 1.0


def test_the_tables_runs_are_shared_with_the_curves():
    table = {run.name for run in EXHIBITS["lambda-table"].plan().values()}
    for name in ("figure-init", "figure-lambda1", "figure-lambda2"):
        assert table & {run.name for run in EXHIBITS[name].plan().values()}, name


def test_the_prior_is_a_density_with_more_of_it_at_zero():
    step = 2 * BOUND / (len(WEIGHTS) - 1)
    assert sum(map(prior, WEIGHTS)) / normaliser() * step == pytest.approx(1, abs=0.03)
    assert prior(0.0) > prior(0.1) > prior(2.0)
