"""Runs sparse networks on a GPU: prints what was chosen, and fails if an output is far from the dense model's.

A process of its own, because Triton compiles the kernels without the checks of signatures that the
tests install.
"""

import sys

import torch
from torch import Tensor, nn

import sparsegate as sg
from sparsegate_lab.models import MODELS

NEAR = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def emptied(model: nn.Module, keep: float) -> nn.Module:
    """The model with few weights left."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.weight.data *= torch.rand_like(module.weight) < keep
    return model.cuda().eval()


def check(name: str, model: nn.Module, x: Tensor) -> None:
    """Every kernel gives the model's outputs, in float64, up to rounding.

    So does a graph that is replayed.
    """
    model, x = model.to(x.dtype), x.cuda()
    wanted = model.double()(x.double())
    model.to(x.dtype)
    for kernel in ("triton", "csr", None):
        fast = sg.sparse(model, x, kernel=kernel)
        for some in (slice(None), slice(1), slice(0), slice(None, None, 2)):
            near(f"{name} {x.dtype} {kernel}", fast(x[some]), wanted[some])
        sys.stdout.write(f"{name}, {x.dtype}\n{fast}\n\n")
    near(f"{name} {x.dtype} graph", replayed(sg.sparse(model, x, kernel="triton"), x), wanted)


def near(name: str, found: Tensor, wanted: Tensor) -> None:
    """Fails if the difference is more than rounding."""
    error = float((found.double() - wanted).norm() / wanted.norm().clamp(min=1e-9))
    sys.stdout.write(f"{name}, batch {len(found)}: {error:.1e}\n")
    assert error < NEAR[found.dtype], f"{name}: {error}"


def replayed(fast: nn.Module, x: Tensor) -> Tensor:
    """The output of a CUDA graph of the network."""
    fast(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fast(x)
    out.zero_()
    graph.replay()
    return out


def main() -> None:
    """Checks some networks in all dtypes."""
    torch.manual_seed(0)
    with torch.no_grad():
        for dtype in NEAR:
            wide = nn.Sequential(
                nn.Linear(9216, 4096),
                nn.ReLU(),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Linear(4096, 10),
            )
            check("three linear layers", emptied(wide, 0.03), torch.randn(4, 9216, dtype=dtype))
            check(
                "LeNet-5",
                emptied(MODELS["lenet5"](), 0.05),
                torch.randn(16, 1, 28, 28, dtype=dtype),
            )


if __name__ == "__main__":
    main()
