"""Whole trainings that are compiled end as those that are not."""

import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_training.py"


@pytest.mark.slow
def test_a_network_and_its_teacher_are_compiled_and_learn_the_same(python, digits, tmp_path):
    done = python(str(SCRIPT), str(tmp_path), str(digits))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    for compiled, plain in zip(found["True"], found["False"], strict=True):
        assert compiled == pytest.approx(plain, rel=1e-3)
