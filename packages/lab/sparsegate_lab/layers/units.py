"""A gate for every unit of a layer: a feature of a Linear, a channel of a Conv."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sparsegate.gates import OPEN_ABOVE

from .wrap import Layer


class GatedUnits(nn.Module):
    """A layer whose units are silent where their gate is not above one half.

    The gradient passes straight through the threshold, so a closed gate can open again. A silent unit is zero before
    the activation, its bias too.
    """

    def __init__(self, layer: Layer, *, start: float) -> None:
        super().__init__()
        self.layer = layer
        self.gate = nn.Parameter(torch.full((len(layer.weight),), start))

    def open(self) -> Bool[Tensor, " unit"]:
        """Which units speak."""
        return self.gate > OPEN_ABOVE

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output, zero in silent units."""
        mask = self.open().to(self.gate) + (self.gate - self.gate.detach())
        out: Tensor = self.layer(features)
        axis = (
            out.ndim - 1
            if isinstance(self.layer, nn.Linear)
            else out.ndim - self.layer.weight.ndim + 1
        )
        return out * mask.to(out.dtype).view(
            [-1 if place == axis else 1 for place in range(out.ndim)]
        )

    @torch.no_grad()
    def without_gates(self) -> Layer:
        """The layer alone, weights and biases of silent units exactly zero."""
        silent = ~self.open()
        self.layer.weight[silent] = 0.0
        if self.layer.bias is not None:
            self.layer.bias[silent] = 0.0
        return self.layer
