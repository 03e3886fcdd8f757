"""Code around a sparse network compiles as one graph."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sparsegate as sg
from sparsegate.graph import unchecked

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_sparse_network.py"


def test_compiled_code_around_a_sparse_network_gives_what_eager_gives():
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert "inference only" in found.pop("backward")
    assert len(found) == 8
    assert max(found.values()) < 1e-5


def test_it_cannot_be_exported():
    model, example = torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.ones(2, 4)
    with pytest.raises(RuntimeError, match="cannot be traced or exported; take the ordinary model"):
        torch.export.export(sg.sparse(model, example, kernel="dense"), (example,), strict=False)


def test_inputs_that_are_no_tensor_are_refused():
    model, example = torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.ones(2, 4)
    with unchecked(), pytest.raises(ValueError, match="a tensor, got ndarray"):
        sg.sparse(model, example, kernel="dense")(example.numpy())
