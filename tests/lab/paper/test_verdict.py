"""Verdicts, by hand."""

import pytest

from sparsegate_lab.paper.printed import Printed
from sparsegate_lab.paper.verdict import Check, Claim, Tolerance
from sparsegate_lab.study import Summary

PAPER = Printed("Table 2", "Han et al.", "accuracy", "99.23")


@pytest.mark.parametrize(
    ("ours", "better", "verdict"),
    [
        (99.43, "higher", "agrees"),  # the tolerance itself
        (99.44, "higher", "ahead"),
        (99.02, "higher", "differs"),
        (99.44, "lower", "differs"),
        (99.02, "lower", "ahead"),
        (99.44, "", "differs"),
    ],
)
def test_a_number_agrees_is_ahead_or_differs(ours, better, verdict):
    assert Check(PAPER, Summary.of([ours]), Tolerance(0.2, "seeds", better)).verdict == verdict


def test_the_difference_is_ours_less_the_papers():
    check = Check(PAPER, Summary.of([99.0, 99.2]), Tolerance(0.2, "seeds"))
    assert check.difference == pytest.approx(-0.13)
    assert check.to_json()["paper"] == 99.23
    assert check.to_json()["ours"]["mean"] == 99.1


def test_without_a_record_nothing_is_judged():
    check = Check(PAPER, None, Tolerance(0.2, "seeds"))
    assert (check.verdict, check.difference) == ("not run yet", None)
    assert Claim("sparser", None).verdict == "not run yet"


def test_a_claim_holds_or_does_not():
    assert [Claim("sparser", holds).verdict for holds in (True, False)] == [
        "holds",
        "does not hold",
    ]
