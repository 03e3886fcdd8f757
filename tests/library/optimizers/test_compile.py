"""A whole training step compiles: forward, backward, and the optimizers that move weights and gates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_step.py"


@pytest.fixture(scope="module")
def found() -> dict:
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("way", ["apart", "together"])
def test_a_compiled_step_moves_weights_and_gates_as_eager_does(found, way):
    assert found[way] < 1e-5


def test_a_compiled_step_with_gates_of_16_bits_ends_within_some_roundings_of_eager(found):
    assert found["small"] < 0.02  # rounded by other random numbers


def test_compiled_changes_of_images_are_those_of_eager(found):
    assert found["changes"] < 1e-4
