"""Findings as text, by hand."""

import json

from sparsegate_lab.paper.findings import Findings, apart
from sparsegate_lab.paper.printed import Printed
from sparsegate_lab.paper.verdict import Check, Claim, Tolerance
from sparsegate_lab.study import Summary

SEEDS = Tolerance(0.2, "points, by chance", "higher")
FINDINGS = Findings(
    "Table 0: toy",
    (("method", "accuracy"), ("ours", "99.50 ± 0.10")),
    (
        Check(Printed("Table 0", "one", "accuracy", "99.20"), Summary.of([99.4, 99.6]), SEEDS),
        Check(
            Printed("Table 0", "two", "accuracy", "99.30"),
            None,
            Tolerance(0.5, "points, by chance"),
        ),
    ),
    (Claim("more is more", True, "2 against 1"),),
    ("Made by hand.",),
    {"x": [0.0, 1.0]},
)


def test_the_page_has_table_checks_reasons_claims_and_notes():
    assert FINDINGS.to_markdown().splitlines() == [
        "# Table 0: toy",
        "",
        "| method | accuracy |",
        "|---|---|",
        "| ours | 99.50 ± 0.10 |",
        "",
        "| row | column | ours | spread | paper | difference | tolerance | verdict |",
        "|---|---|---|---|---|---|---|---|",
        "| one | accuracy | 99.50 | 0.14 | 99.20 | +0.30 | 0.2 | ahead |",
        "| two | accuracy | - | - | 99.30 | - | 0.5 | not run yet |",
        "",
        "- Tolerance 0.2 to 0.5: points, by chance.",
        "",
        "| the paper says | ours | verdict |",
        "|---|---|---|",
        "| more is more | 2 against 1 | holds |",
        "",
        "Made by hand.",
    ]


def test_the_table_is_comma_separated_and_without_one_the_points_are():
    assert FINDINGS.to_csv() == 'method,accuracy,"accuracy, spread"\nours,99.50,0.10\n'
    assert (
        Findings("Figure 0: toy", points={"x": [0.0, 1.0], "y": [2.0, 3.0]}).to_csv()
        == "x,y\n0.0,2.0\n1.0,3.0\n"
    )


def test_everything_goes_to_json():
    value = json.loads(json.dumps(FINDINGS.to_json()))
    assert value["summary"] == {"ahead": 1, "not run yet": 1, "holds": 1}
    assert value["table"] == [{"method": "ours", "accuracy": "99.50 ± 0.10"}]
    assert [each["difference"] for each in value["checks"]] == [0.3, None]


def test_verdicts_are_counted_in_one_line():
    assert FINDINGS.summary == "1 ahead, 1 not run yet, 1 holds"
    assert Findings("Figure 0: toy").summary == "a drawing"


def test_a_spread_gets_a_column_of_its_own_and_an_empty_cell_where_there_is_none():
    rows = [("layer", "kept", "paper"), ("fc1", "11,916.5 ± 84.0 %", "15.4K"), ("fc2", "-", "600")]
    assert apart(rows) == [
        ("layer", "kept", "kept, spread", "paper"),
        ("fc1", "11916.5", "84.0", "15.4K"),
        ("fc2", "-", "", "600"),
    ]


def test_text_with_digits_stays_as_it_is():
    rows = [
        ("method", "(lambda1, lambda2)"),
        ("conv1_1, conv2", "(0, 1)"),
        ("level (+0.01, with 36,224)", "9.9x"),
    ]
    assert apart(rows) == rows


def test_no_table_stays_none():
    assert apart(()) == []
