"""Launches of Triton's kernels."""

import copy
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from sparsegate.runtime import pack
from sparsegate.runtime.cuda.launch import begins_early, filled, multiprocessors, on_device
from sparsegate.triton_call import Launch

SCRIPT = Path(__file__).parents[3] / "scripts" / "compile_kernels.py"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
def test_every_kernel_compiles_for_every_storage():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 4


@needs_triton
def test_a_layer_that_has_run_can_be_copied_and_pickled():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    packed, x = (
        pack(torch.eye(4, device=device), None, relu=False),
        torch.randn(3, 4, device=device),
    )
    wanted = packed(x)
    assert torch.equal(copy.deepcopy(packed)(x), wanted)
    assert torch.equal(pickle.loads(pickle.dumps(packed))(x), wanted)


def test_what_is_ready_on_a_gpu_stays_behind_when_a_launch_is_copied():
    launch = Launch("sparsegate.runtime.cuda.kernels", "spread", (1, 1), {}, _ready=print)
    assert copy.deepcopy(launch)._ready is None


def test_nothing_begins_early_on_a_cpu():
    assert not begins_early(torch.device("cpu"))


def test_tensors_on_a_cpu_need_no_device():
    with on_device(torch.zeros(1)) as found:
        assert found is None


@pytest.mark.parametrize("there", [1, 20, 132])
def test_programs_are_filled_up_to_an_even_share_of_the_gpu(there):
    for programs in range(1, 3 * there):
        found = filled(programs, there)
        assert programs <= found <= max(2 * programs, there)
        assert found % there == 0 or found == there // (there // found)


def test_without_a_gpu_there_is_nothing_to_fill():
    assert multiprocessors(torch.device("cpu")) == 1
