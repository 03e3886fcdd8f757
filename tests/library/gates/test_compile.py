"""Gated models compile as one graph, with the outputs and gradients of eager."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_fullgraph.py"


@pytest.fixture(scope="module")
def found() -> dict:
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("draw", ["Threshold", "Sample"])
@pytest.mark.parametrize("model", ["dense", "convolution", "tied", "transformer", "recurrent"])
def test_a_compiled_model_has_the_outputs_and_gradients_of_eager(found, model, draw, mode):
    gaps = found[f"{model} {draw} {mode}"]
    assert gaps["output"] < 1e-5
    assert gaps["gradient"] < 1e-5
    assert gaps["largest gradient"] > 1e-3  # else there was nothing to compare


def test_a_compiled_sampled_model_draws_a_new_mask_at_every_pass(found):
    assert found["draws anew"]


def test_a_compiled_model_follows_its_gates(found):
    assert found["follows a gate"]


def test_a_compiled_model_in_eval_equals_the_finished_one(found):
    assert found["finished"] < 1e-5
