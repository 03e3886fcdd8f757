"""Small networks of all sparsities, types and shapes, whose files are then damaged."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from sparsegate.files import quantise_
from sparsegate.graph import order_units_

TYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.int64,
)
SPARSITIES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


@cache
def networks() -> list[dict[str, Tensor]]:
    """State dicts with ties, buffers, empty tensors and scalars."""
    torch.manual_seed(0)
    found: list[dict[str, Tensor]] = [{}]
    for kind in TYPES:
        found += [_sparse(kind, sparsity) for sparsity in SPARSITIES]
    norm = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).state_dict()
    found.append(dict(norm) | {"empty": torch.zeros(0, 4), "zeros": torch.zeros(9, 9)})
    return [*found, _ordered()]


def _sparse(kind: torch.dtype, sparsity: float) -> dict[str, Tensor]:
    weight = (torch.randn(20, 30) * 50).mul(torch.rand(20, 30) >= sparsity).to(kind)
    few = torch.zeros(2, 300, dtype=kind)
    few[1, 123] = 1
    return {"weight": weight, "few": few, "bias": torch.ones(7, dtype=kind), "tied": weight}


@torch.no_grad()
def _ordered() -> dict[str, Tensor]:
    """A network of few values, with its units ordered, so that masks are coded by order."""
    ordered = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 5))
    for each in ordered.parameters():
        each.mul_(torch.rand(each.shape) < 0.2)
    quantise_(ordered, bits=3)
    order_units_(ordered, torch.zeros(1, 30))
    return dict(ordered.state_dict())
