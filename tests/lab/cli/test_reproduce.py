"""`sparsegate reproduce` from the terminal."""

import json
import re
from pathlib import Path

import pytest

from sparsegate.cli import main
from sparsegate_lab.paper import EXHIBITS, Archive, reproduction_page

ROOT = Path(__file__).parents[3]


def test_without_a_name_the_exhibits_are_listed_one_a_line(capsys):
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, exhibit in EXHIBITS.items():
        assert [
            line for line in lines if line.split()[:1] == [name] and line.endswith(exhibit.title())
        ]


def test_an_unknown_name_is_answered_with_the_known_ones(capsys):
    assert main(["reproduce", "lambda-tabel"]) == 2
    error = capsys.readouterr().err
    assert "unknown exhibit 'lambda-tabel'; did you mean 'lambda-table'?" in error


def test_committed_records_make_a_table_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "lambda-table", "--results", str(ROOT / "results")]) == 0
    out = capsys.readouterr().out
    assert "Table 5" in out
    assert "training takes" not in out
    found = json.loads((tmp_path / "reproduced" / "lambda-table" / "lambda-table.json").read_text())
    assert len(found["checks"]) == 12
    assert all(check["ours"] is not None for check in found["checks"])
    assert (tmp_path / "reproduced" / "lambda-table" / "records.json").exists()
    assert not (tmp_path / "runs").exists()


def test_what_has_no_record_is_left_out_if_asked(tmp_path, capsys):
    words = [
        "reproduce",
        "lambda-table",
        "--train",
        "never",
        "--results",
        str(tmp_path),
        "--folder",
        str(tmp_path),
    ]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 0
    assert "30 runs have no record and are left out" in capsys.readouterr().out


def test_a_picture_without_records_is_no_reason_to_ask_for_matplotlib(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    words = [
        "reproduce",
        "figure-init",
        "--train",
        "never",
        "--results",
        str(tmp_path),
        "--folder",
        str(tmp_path),
    ]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 0
    assert "matplotlib" not in capsys.readouterr().out


def test_fresh_passes_over_committed_records(tmp_path, capsys):
    words = [
        "--results",
        str(ROOT / "results"),
        "--folder",
        str(tmp_path),
        "--runs",
        str(tmp_path / "runs"),
    ]
    assert main(["reproduce", "lambda-table", "--fresh", "--train", "never", *words]) == 0
    assert "30 runs have no record" in capsys.readouterr().out


def test_the_page_of_all_exhibits_is_made_from_the_committed_records():
    archive = Archive(results=ROOT / "results")
    found = {
        name: each.findings(archive.studies(each, (0, 1, 2))) for name, each in EXHIBITS.items()
    }
    page = ROOT / "docs" / "reproduction.md"
    pictures = [path.stem for path in page.with_suffix("").glob("*.svg")]
    assert page.read_text() == reproduction_page(found, pictures=pictures), (
        "run sparsegate reproduce all --train never"
    )


def test_every_exhibit_has_its_part_of_the_page():
    text = (ROOT / "docs" / "reproduction.md").read_text()
    for name, exhibit in EXHIBITS.items():
        assert re.search(rf"^## {name}$", text, re.MULTILINE)
        assert exhibit.title() in text


@pytest.mark.slow
def test_an_interrupted_reproduction_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparsegate_lab.paper.fc1_runs.EPOCHS", 1)
    assert main(["reproduce", "lambda-table", "--seeds", "0"]) == 0
    out = capsys.readouterr().out
    assert "10 runs have no record" in out
    assert re.search(r"training takes about \d+ minute", out)
    assert main(["reproduce", "lambda-table", "--seeds", "0"]) == 0
    assert "have no record" not in capsys.readouterr().out


def test_long_training_is_announced_and_left_to_those_who_ask_for_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sparsegate_lab.cli.reproduce.LONG", 0.0)
    words = [
        "--results",
        str(ROOT / "results"),
        "--folder",
        str(tmp_path),
        "--runs",
        str(tmp_path / "runs"),
    ]
    assert main(["reproduce", "lenet5-layers", "--fresh", *words]) == 0
    out = capsys.readouterr().out
    assert "3 runs have no record; timing some steps" in out
    assert re.search(
        r"training them takes about [\d.]+ (minutes|hours) on this machine; left out",
        out,
    )
    assert not (tmp_path / "runs").exists()
