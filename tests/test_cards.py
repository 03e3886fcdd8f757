"""The numbers in the methods' cards are those of the committed records."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from sparsegate_lab.methods import METHODS
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

ROOT = Path(__file__).parent.parent
COMPARED = sorted((ROOT / "results" / "compare").glob("*.json"))


@pytest.mark.parametrize("name", METHODS)
def test_a_cards_table_is_made_from_the_records(name):
    spec = importlib.util.spec_from_file_location("cards", ROOT / "benchmarks" / "cards.py")
    cards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cards)
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    assert "<!-- measured -->" in text
    assert cards.filled(name, text) == text, "run python benchmarks/cards.py"


@pytest.mark.parametrize("path", COMPARED, ids=lambda path: path.stem)
def test_a_compared_study_is_of_its_recipe_and_says_what_made_it(path):
    study = Study.load(path)
    run = RECIPES[path.stem]()
    for record in study.records:
        assert dataclasses.replace(Run.from_json(record.run), seed=0) == run
        assert record.command == f"sparsegate train {path.stem} --seed {record.run['seed']}"
        assert record.machine["processor"]
    assert "benchmarks/compare.py" in study.command
    assert len({record.run["seed"] for record in study.records}) == len(study.records)
