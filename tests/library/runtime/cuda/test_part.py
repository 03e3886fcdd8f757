"""Layers of a model on CUDA, by Triton; in its interpreter where there is no GPU."""

import copy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.cuda.part import TritonPart, why_not
from sparsegate.runtime.part import sparse_part
from sparsegate.runtime.sparsable import captured, pieces

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCRIPT = Path(__file__).parents[3] / "scripts" / "sparse_on_cuda.py"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

MODELS = {
    "linear": (lambda: nn.Linear(30, 7), (30,)),
    "linear without bias, rectified": (
        lambda: nn.Sequential(nn.Linear(30, 7, bias=False), nn.ReLU()),
        (30,),
    ),
    "convolution, pooled, rectified, flat": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        (2, 9, 8),
    ),
    "strided, padded, dilated, in groups": (
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=(2, 1), dilation=(2, 1), groups=2),
        (4, 9, 8),
    ),
    "convolution with BatchNorm, rectified": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        (2, 9, 8),
    ),
    "padded to the same size": (lambda: nn.Conv2d(2, 3, (3, 5), padding="same"), (2, 6, 7)),
}


@needs_triton
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_and_what_follows_it_give_the_same_outputs(name, batch):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = nn.Sequential(make()).to(DEVICE).eval(), torch.randn(batch, *shape, device=DEVICE)
    for parameter in model.parameters():
        parameter.data *= torch.rand_like(parameter) < 0.4
    (piece,) = pieces(captured(model, torch.randn(2, *shape, device=DEVICE)))
    part = sparse_part([piece], "triton") if DEVICE == "cuda" else TritonPart(piece)
    with torch.no_grad():
        torch.testing.assert_close(part(x), model(x))
    assert copy.deepcopy(part) is part


def test_triton_asked_for_on_a_cpu_says_where_it_runs():
    with pytest.raises(
        ValueError, match="run on CUDA, got weights on cpu; move the model and the example"
    ):
        sg.sparse(nn.Sequential(nn.Linear(3, 2)), torch.zeros(1, 3), kernel="triton")


def test_weights_on_a_cpu_are_not_for_triton():
    assert "run on CUDA" in why_not(torch.zeros(2, 2))


@needs_gpu
def test_other_dtypes_are_named_with_what_to_do():
    assert "got torch.float64; convert" in why_not(
        torch.zeros(2, 2, device="cuda", dtype=torch.float64)
    )


@needs_gpu
@needs_triton
def test_sparse_networks_on_a_gpu_give_the_dense_outputs():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "triton" in done.stdout
