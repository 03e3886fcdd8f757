"""Under bf16 autocast the gates and their gradients stay in float32.

The passes run in a process of their own, this file as a script: some virtual machines advertise AMX
without allowing it, and oneDNN reads the variable that avoids it only once.
"""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from sparsegate.gates import Draw, Sample, Threshold, gate, gates
from sparsegate.optimizers import GateSGD

MODELS = {
    "dense": lambda: (
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
        torch.randn(6, 8),
    ),
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(36, 2)),
        torch.randn(4, 1, 5, 5),
    ),
    "embedding": lambda: (
        nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)),
        torch.tensor([[0, 1], [2, 4]]),
    ),
}
DRAWS = {"Threshold": Threshold(), "Sample": Sample()}


def gradients(model: nn.Module, inputs: Tensor, *, autocast: bool) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        output = model(inputs)
    output.float().square().mean().backward()
    return output, [each.gate.grad.clone() for each in gates(model).values()]


def facts(name: str, draw: Draw) -> dict[str, object]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    for each in gates(gate(model, draw=draw)).values():
        nn.init.uniform_(each.gate)
    _, exact = gradients(model, inputs, autocast=False)
    output, grads = gradients(model, inputs, autocast=True)
    GateSGD(model, lr=0.1).step()
    found = list(gates(model).values())
    return {
        "output": str(output.dtype),
        "gates": sorted({str(each.gate.dtype) for each in found}),
        "gradients": sorted({str(grad.dtype) for grad in grads}),
        "finite": all(bool(grad.isfinite().all()) for grad in grads),
        "similarity": min(
            torch.cosine_similarity(*two, dim=0).item() for two in flat(exact, grads)
        ),
        "in range": all(bool(((each.gate >= 0) & (each.gate <= 1)).all()) for each in found),
    }


def flat(one: list[Tensor], other: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(a.flatten(), b.flatten()) for a, b in zip(one, other, strict=True)]


@pytest.fixture(scope="module")
def found() -> dict:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    ended = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=120, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


every_case = pytest.mark.parametrize(
    "case", [f"{name} {draw}" for name in MODELS for draw in DRAWS]
)


@every_case
def test_outputs_are_bf16(found, case):
    assert found[case]["output"] == "torch.bfloat16"


@every_case
def test_gates_and_their_gradients_stay_in_float32(found, case):
    assert found[case]["gates"] == found[case]["gradients"] == ["torch.float32"]


@every_case
def test_gate_gradients_are_finite_and_point_as_those_without_autocast(found, case):
    assert found[case]["finite"]
    assert found[case]["similarity"] > 0.99


@every_case
def test_gates_stay_in_range_after_a_step(found, case):
    assert found[case]["in range"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    json.dump(
        {f"{name} {key}": facts(name, draw) for name in MODELS for key, draw in DRAWS.items()},
        sys.stdout,
    )
