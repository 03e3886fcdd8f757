"""Gated models compile as one graph, with the outputs and gradients of eager."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_fullgraph.py"


def compared(which: str) -> dict:
    """How far compiled models are from eager, by model, draw and mode."""
    words = [sys.executable, SCRIPT, which]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def found() -> dict:
    return compared("few")


@pytest.fixture(scope="module")
def rest() -> dict:
    return compared("rest")


def assert_equal(gaps):
    assert gaps["output"] < 1e-5
    assert gaps["gradient"] < 1e-5
    assert gaps["largest gradient"] > 1e-3  # else there was nothing to compare


@pytest.mark.parametrize(
    "case", ["Threshold train", "Threshold eval", "Sample train", "Sample eval"]
)
def test_a_compiled_dense_network_has_the_outputs_and_gradients_of_eager(found, case):
    assert_equal(found[f"dense {case}"])


OTHERS = ["convolution", "tied", "transformer", "recurrent"]


@pytest.mark.parametrize("case", ["Threshold eval", "Sample train"])
@pytest.mark.parametrize("model", OTHERS)
def test_a_compiled_model_has_the_outputs_and_gradients_of_eager(found, model, case):
    assert_equal(found[f"{model} {case}"])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["Threshold train", "Sample eval"])
@pytest.mark.parametrize("model", OTHERS)
def test_so_has_a_compiled_model_of_the_other_draw_in_the_other_mode(rest, model, case):
    assert_equal(rest[f"{model} {case}"])


def test_a_compiled_sampled_model_draws_a_new_mask_at_every_pass(found):
    assert found["draws anew"]


def test_a_compiled_model_follows_its_gates(found):
    assert found["follows a gate"]


def test_a_compiled_model_in_eval_equals_the_finished_one(found):
    assert found["finished"] < 1e-5
