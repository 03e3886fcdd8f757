"""The verb `compare` trains methods at rates and writes a table and a picture."""

import json
from importlib.util import find_spec

import pytest

from sparsegate.cli import main
from sparsegate_lab.cli.compare import parse, runs
from sparsegate_lab.comparison import Comparison
from sparsegate_lab.recipes import CONTESTANTS

ENDINGS = {"csv", "json", "md"} | ({"png", "svg"} if find_spec("matplotlib") else set())


def test_it_writes_the_records_a_table_and_a_picture_and_does_nothing_twice(
    digits, tmp_path, capsys
):
    words = ["compare", "lenet300", "--data", str(digits), "--epochs", "2", "--seeds", "2"]
    words += ["--keeps", "0.02", "0.1", "--methods", "learned_gates", "gradual_magnitude"]
    words += ["--folder", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "10/10  gradual_magnitude, keep 0.02, seed 1: validation" in out
    assert "learned_gates - best other" in out
    assert {path.suffix[1:] for path in tmp_path.glob("compare-lenet300.*")} == ENDINGS
    found = Comparison.load(tmp_path / "compare-lenet300.json")
    assert found.command.startswith("sparsegate compare lenet300")
    assert found.methods == ["learned_gates", "gradual_magnitude"]
    assert found.keeps == [0.1, 0.02]
    assert {record.kept for record in found.records("learned_gates", 0.02)} == {5324}
    assert [record.kept for record in found.records("dense")] == [266_200] * 2
    rows = (tmp_path / "compare-lenet300.md").read_text().splitlines()
    assert [row.split(" | ")[0] for row in rows if "±" in row] == [
        "| dense",
        "| learned_gates",
        "| gradual_magnitude",
    ]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/record.json")}
    assert main([*words, "--out", str(tmp_path / "deeper" / "again")]) == 0
    assert {path.suffix[1:] for path in (tmp_path / "deeper").glob("again.*")} == ENDINGS
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/record.json")}


def test_all_methods_share_epochs_and_settings():
    _, command = parse(["lenet5", "--epochs", "7", "--lr", "0.01", "--seed", "4", "--seeds", "2"])
    every = runs(command)
    assert len(every) == 2 * (1 + 7 * len(CONTESTANTS))
    assert {(run.epochs, run.lr, run.model) for _, _, run in every} == {(7, 0.01, "lenet5")}
    assert {run.seed for _, _, run in every} == {4, 5}
    assert len({run.name for _, _, run in every}) == len(every)
    assert [name for name, _, _ in every[:3]] == ["dense", "dense", "learned_gates"]


@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_contestant_keeps_what_is_asked_for(name):
    method = CONTESTANTS[name](0.07)
    assert 0.07 in (getattr(method, "keep", None), getattr(method, "target", method).keep)


def test_a_run_that_fails_is_reported_and_the_others_go_on(digits, tmp_path, capsys):
    words = ["compare", "lenet300", "--data", str(digits), "--epochs", "1", "--seeds", "1"]
    words += ["--keeps", "0.000004", "--methods", "learned_gates", "gradual_magnitude"]
    assert main([*words, "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "learned_gates, keep 4e-06, seed 0: failed: keep=4e-06 of 266,200 gated" in out
    value = json.loads((tmp_path / "compare-lenet300.json").read_text())
    assert len(value["failed"]) == 1
    assert [each["method"] for each in value["entries"]] == ["dense", "gradual_magnitude"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass the name of a recipe"),
        (["lenet9"], "unknown recipe or model 'lenet9'"),
        (["lenet5", "--methods", "pruning"], "unknown method with a keep 'pruning'"),
        (["lenet5", "--keeps", "2"], "keep is a fraction"),
        (["lenet5", "--seeds", "0"], "seeds is at least 1, got 0"),
        (["lenet5", "--data", "/nowhere/at/all"], "no data folder at /nowhere/at/all"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, message, capsys, tmp_path):
    assert main(["compare", *words, *(["--folder", str(tmp_path)] if words else [])]) == 2
    assert message in capsys.readouterr().err
