"""The verb `frontier` trains many prices at once and writes the curve."""

import json
from importlib.util import find_spec

import pytest

from sparsegate.cli import main
from sparsegate_lab.cli.frontier import members, parse

ENDINGS = {"csv", "json", "md"} | ({"png", "svg"} if find_spec("matplotlib") else set())


def test_it_writes_the_curve_its_table_and_its_picture_and_does_nothing_twice(
    digits, tmp_path, capsys
):
    words = [
        "frontier",
        "lenet300",
        "--data",
        str(digits),
        "--epochs",
        "2",
        "--gate-lr",
        "100",
        "--members",
        "4",
    ]
    words += ["--seeds", "2", "--low", "2", "--high", "8", "--folder", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "training 4 networks, lenet300" in out
    assert "epoch 2/2" in out
    assert {path.suffix[1:] for path in tmp_path.glob("frontier-lenet300.*")} == ENDINGS
    value = json.loads((tmp_path / "frontier-lenet300.json").read_text())
    prices = [record["run"]["method"]["penalty"]["count"] for record in value["records"]]
    assert prices == [2.0, 2.0, 8.0, 8.0]
    assert len((tmp_path / "frontier-lenet300.md").read_text().splitlines()) == 6
    assert main([*words, "--out", str(tmp_path / "deeper" / "again")]) == 0
    assert "training" not in capsys.readouterr().out
    assert {path.suffix[1:] for path in (tmp_path / "deeper").glob("again.*")} == ENDINGS


def test_targets_may_take_the_place_of_prices(digits, tmp_path, capsys):
    words = ["frontier", "lenet300", "--data", str(digits), "--epochs", "1", "--batch-size", "100"]
    words += ["--targets", "0.1", "0.01", "--folder", str(tmp_path)]
    assert main(words) == 0
    assert "keep 0.01" in capsys.readouterr().out
    value = json.loads((tmp_path / "frontier-lenet300.json").read_text())
    assert [record["derived"]["kept"] for record in value["records"]] == [2662, 26620]


def test_prices_go_from_low_to_high_by_equal_factors():
    runs = members(
        parse(["lenet5", "--members", "3", "--low", "1", "--high", "16", "--seed", "7"])[1]
    )
    assert [run.method.penalty.count for run in runs] == [1.0, 4.0, 16.0]
    assert {run.seed for run in runs} == {7}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass the name of a recipe"),
        (["lenet5-magnitude"], "a frontier varies the price, and lenet5-magnitude uses magnitude"),
        (["lenet9"], "unknown recipe or model 'lenet9'"),
        (["lenet5", "--members", "3", "--seeds", "2"], "a multiple of seeds, got 3 and 2"),
        (["lenet5", "--low", "0"], "wanted 0 < low <= high"),
        (["lenet5", "--targets", "0.1", "--high", "9"], "high would have no effect; leave it out"),
        (["lenet5", "--targets", "0.1", "0.1"], "targets are different fractions"),
        (["lenet5", "--targets", "2"], "keep is a fraction in (0, 1], got 2"),
        (["lenet5", "--target.keep", "0.1"], "give the fractions to keep with --targets"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, message, capsys):
    assert main(["frontier", *words]) == 2
    assert message in capsys.readouterr().err
