"""The average output of a model over several drawn masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .install import require_gates


@torch.no_grad()
def average(model: nn.Module, *inputs: Any, draws: int) -> Tensor:
    """The mean output of `draws` passes, each with newly drawn masks; everything else is in eval.

    Under `Sample` this is the Monte-Carlo average of the paper. In plain eval a sampled model uses the threshold.

    >>> from sparsegate.gates import Constant, Sample, gate
    >>> model = gate(nn.Linear(1, 1, bias=False), draw=Sample(), start=Constant(1.0))
    >>> torch.equal(average(model, torch.ones(1, 1), draws=2), model(torch.ones(1, 1)))
    True
    """
    if draws < 1:
        raise ValueError(f"draws is how many masks to average over, at least 1, got {draws}")
    found = require_gates(model)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    for each in found.values():
        each.train()
    try:
        return torch.stack([model(*inputs) for _ in range(draws)]).mean(0)
    finally:
        for module, training in modes.items():
            module.training = training
