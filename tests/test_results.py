"""The numbers on the page of results are those of the committed records."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from sparsegate.text_table import markdown
from sparsegate_lab.comparison import Comparison
from sparsegate_lab.report import rates_table
from sparsegate_lab.study import Study

ROOT = Path(__file__).parent.parent
STUDIES = [
    path
    for path in sorted((ROOT / "results").glob("*.json"))
    if "records" in json.loads(path.read_text())
]


def test_the_tables_of_results_are_made_from_the_records():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    text = (ROOT / "docs" / "results.md").read_text()
    assert readme.filled(text) == text, "run python benchmarks/readme.py"


def test_the_numbers_on_the_front_page_are_those_of_the_records():
    page = (ROOT / "README.md").read_text()
    for rate in (300, 500):
        test = Study.load(ROOT / "results" / f"lenet5-{rate}x.json").summary(lambda run: run.test)
        assert re.search(rf"\b{rate} times fewer.{{0,10}} at {test.mean:.2f} %", page)
    files = json.loads((ROOT / "results" / "lenet5-files.json").read_text())["summary"]
    small = files["smallest"]["2 bits per network, tuned"]
    assert f"**{small['sg_bytes']['mean']:,.0f} bytes** at {small['test']['mean']:.2f} %" in page
    rows = json.loads((ROOT / "results" / "cpu-speed.json").read_text())["rows"]
    gains = [row["times_eager"]["ours"] for row in rows if row["case"] == "VGG-16 for CIFAR, 99 %"]
    assert f"**{min(gains):.0f} to {max(gains):.0f} times as fast**" in page


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_says_what_made_it_and_has_at_least_three_seeds(path):
    study = Study.load(path)
    assert len({record.run["seed"] for record in study.records}) >= 3
    assert path.stem in study.command
    for record in study.records:
        assert record.command
        assert record.machine["processor"]
        assert record.versions["torch"]
    assert json.loads(json.dumps(study.to_json())) == json.loads(path.read_text())


@pytest.mark.parametrize(
    ("record", "page"), [("lenet300", "compare.md"), ("small-cnn", "notebook/rates.md")]
)
def test_the_table_of_compared_methods_is_that_of_the_record(record, page):
    found = Comparison.load(ROOT / "results" / f"compare-{record}.json")
    text = (ROOT / "docs" / page).read_text()
    assert markdown(rates_table(found)) in text
    assert found.command in text
    assert not found.failed


def test_the_numbers_of_other_processors_are_those_of_the_records():
    browser = json.loads((ROOT / "results" / "browser.json").read_text())
    page = (ROOT / "docs" / "howto" / "browser.md").read_text()
    assert f"{browser['onnxruntime-web / ours']} times as fast" in page
    assert browser["largest difference"] < 1e-3
    rows = json.loads((ROOT / "results" / "arm-instructions.json").read_text())["rows"]
    gains = [row["dense / sparse"] for row in rows]
    page = (ROOT / "docs" / "run.md").read_text()
    assert f"{min(gains):.1f} to {max(gains):.1f} times fewer instructions" in page


def test_the_table_of_microcontrollers_is_that_of_the_record():
    record = json.loads((ROOT / "results" / "microcontroller.json").read_text())
    page = (ROOT / "docs" / "export-c.md").read_text()
    for network in record["networks"].values():
        board = network["Cortex-M4"]
        keys = ("flash of the program", "RAM with the stack", "instructions for an image")
        assert " | ".join(f"{board[key]:,}" for key in keys) in page
    small = record["networks"]["300x, int8"]["Cortex-M0+"]
    assert f"{small['flash of the program']:,} bytes of flash" in page
    assert f"{small['instructions for an image']:,} instructions" in page
