"""Averages a model's outputs over several drawn masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .install import require_gates


@torch.no_grad()
def average(model: nn.Module, *inputs: Any, draws: int) -> Tensor:
    """Returns the mean output of several passes, each with newly drawn masks.

    Under `Sample` this is the Monte-Carlo average of the paper. All else is in eval mode. In plain
    eval mode, a sampled model uses the threshold.

    >>> from sparsegate.gates import Constant, Sample, gate
    >>> model = gate(nn.Linear(1, 1, bias=False), draw=Sample(), start=Constant(1.0))
    >>> torch.equal(average(model, torch.ones(1, 1), draws=2), model(torch.ones(1, 1)))
    True

    Args:
        model: A gated model.
        inputs: The arguments of its forward pass.
        draws: The number of passes, at least 1.
    """
    if draws < 1:
        raise ValueError(f"draws is a number of masks, at least 1, got {draws}")
    found = require_gates(model)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    for gate in found.values():
        gate.train()
    try:
        return torch.stack([model(*inputs) for _ in range(draws)]).mean(0)
    finally:
        for module, training in modes.items():
            module.training = training
