"""Exported C runs on emulated Cortex-M boards and computes there what it computes in PyTorch."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import sparsegate as sg

from .conftest import outputs_of, sparse

EXAMPLE = Path(__file__).parents[3] / "examples/keyword/boards.py"
spec = importlib.util.spec_from_file_location("boards", EXAMPLE)
boards = sys.modules["boards"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(boards)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not boards.is_installed(), reason="gcc-arm-none-eabi or qemu-system-arm is missing"
    ),
]
NETWORKS = ("matrices", "a chain", "a signal", "an encoder")


@pytest.mark.parametrize("board", boards.BOARDS)
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_board_computes_what_torch_computes(name, dtype, board, tmp_path):
    model, example = sparse(name)
    path = tmp_path / "network.c"
    written = sg.to_c(model, path, example=example, dtype=dtype, form="tables")
    run = boards.run(boards.BOARDS[board], path, example[:2])
    wanted = torch.cat([outputs_of(model, one[None])[0].flatten()[None] for one in example[:2]])
    error = (torch.from_numpy(run.outputs) - wanted).abs().max() / wanted.abs().max()
    assert error < (1e-5 if dtype == "fp32" else 0.06)
    assert written.flash < run.flash
    assert written.ram < run.ram
    assert run.instructions > written.num_weights
