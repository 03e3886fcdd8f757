"""Shrinkage against selection, from the records that are committed and from made-up ones."""

import dataclasses
from pathlib import Path

import pytest

from sparsegate_lab.paper import EXHIBITS, Archive
from sparsegate_lab.record import SIZE_EDGES, Record
from sparsegate_lab.report import mean_sizes, quantile
from sparsegate_lab.study import Study

RESULTS = Path(__file__).parents[3] / "results"
FIGURE = EXHIBITS["figure-lasso"]
RECORD = Record("run", {}, "", {}, {}, (), 0, 0, 99.0, 99.0, (), 1.0)


def study(*sizes):
    return Study("", "", tuple(dataclasses.replace(RECORD, sizes=tuple(each)) for each in sizes))


def bins(place, count):
    return [count if each == place else 0 for each in range(len(SIZE_EDGES) + 1)]


def test_the_committed_records_show_shrinkage_at_equal_sparsity():
    studies = Archive(results=RESULTS).studies(FIGURE, (0, 1, 2))
    assert [len(each.records) for each in studies.values()] == [3, 3]
    assert FIGURE.findings(studies).summary == "2 holds"
    # What the figure is about: gates keep hardly any weight that LASSO would call small.
    assert quantile(mean_sizes(studies["lenet5-gates-36k"].records), 0.01) > 0.02


@pytest.mark.parametrize(
    ("place", "count", "verdicts"), [(30, 100, "2 holds"), (70, 100, "1 holds, 1 does not hold")]
)
def test_larger_weights_are_no_shrinkage(place, count, verdicts):
    studies = {"lenet5-lasso": study(bins(place, count)), "lenet5-gates-36k": study(bins(60, 100))}
    assert FIGURE.findings(studies).summary == verdicts


def test_unequal_sparsity_is_said():
    studies = {"lenet5-lasso": study(bins(30, 80)), "lenet5-gates-36k": study(bins(60, 100))}
    assert [each.verdict for each in FIGURE.findings(studies).claims] == ["does not hold", "holds"]


def test_without_one_of_the_two_nothing_is_drawn():
    studies = {"lenet5-lasso": study(bins(30, 80))}
    assert FIGURE.findings(studies).summary == "2 not run yet"
    assert FIGURE.draw(None, studies) is False
