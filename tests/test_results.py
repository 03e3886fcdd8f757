"""The numbers on the page of results are those of the committed records."""

import importlib.util
import json
from pathlib import Path

import pytest

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
