"""The verb `sweep` trains many settings and writes the table."""

import csv
import json

import pytest

from sparsegate.cli import main


def test_it_writes_the_table_and_its_picture_and_does_nothing_twice(digits, tmp_path, capsys):
    words = ["sweep", "lenet300", "--data", str(digits), "--epochs", "1", "--batch-size", "100"]
    words += ["--vary", "lr", "0.01", "0.1", "log", "--choose", "flip", "true", "false"]
    words += ["--target.keep", "0.05", "--trials", "2", "--folder", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "found")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "trial 1: lr 0.0" in out
    assert "epoch 1/1" in out
    assert f"{tmp_path}/found.json" in out
    rows = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert len(rows) == 2
    assert {row["flip"] for row in rows} <= {"True", "False"}
    assert {row["weights"] for row in rows} == {"13310"}
    assert len((tmp_path / "found.md").read_text().splitlines()) == 4
    assert (tmp_path / "found.png").exists()
    value = json.loads((tmp_path / "found.json").read_text())
    assert value["command"].startswith("sparsegate sweep lenet300")
    assert main(words) == 0
    assert "training" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass the name of a recipe"),
        (["lenet9"], "unknown recipe or model 'lenet9'"),
        (["lenet5"], "a sweep varies at least one setting: --vary lr 0.01 0.1 log"),
        (["lenet5", "--vary", "lr", "0.1"], "--vary takes NAME LOW HIGH"),
        (["lenet5", "--vary", "lr", "0.1", "1", "--lr", "2"], "--lr has no effect; leave it out"),
        (["lenet5", "--vary", "target.keep", "0.1", "1", "--method", "obd"], "has no setting"),
        (["lenet5", "--vary", "lr", "0.1", "1", "--trials", "0"], "at least one trial"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, message, capsys):
    assert main(["sweep", *words]) == 2
    assert message in capsys.readouterr().err
