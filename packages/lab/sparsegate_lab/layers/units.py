"""A gate for every unit of a layer: a feature of a Linear, a channel of a Conv."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sparsegate.gates import OPEN_ABOVE

from .wrap import Layer


class GatedUnits(nn.Module):
    """A layer with a gate on every unit; a unit is active if its gate is above 0.5.

    The gradient passes straight through the threshold, so a closed gate can open again. An inactive
    unit is zero before the activation function, with its bias.
    """

    def __init__(self, layer: Layer, *, start: float) -> None:
        super().__init__()
        self.layer = layer
        self.gate = nn.Parameter(torch.full((len(layer.weight),), start))

    def open(self) -> Bool[Tensor, " unit"]:
        """Which units are active."""
        return self.gate > OPEN_ABOVE

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output, zero for inactive units."""
        mask = self.open().to(self.gate) + (self.gate - self.gate.detach())
        out: Tensor = self.layer(features)
        axis = (
            out.ndim - 1
            if isinstance(self.layer, nn.Linear)
            else out.ndim - self.layer.weight.ndim + 1
        )
        return out * mask.to(out.dtype).view(
            [-1 if dimension == axis else 1 for dimension in range(out.ndim)]
        )

    @torch.no_grad()
    def without_gates(self) -> Layer:
        """The plain layer, with weights and biases of inactive units exactly zero."""
        closed = ~self.open()
        self.layer.weight[closed] = 0.0
        if self.layer.bias is not None:
            self.layer.bias[closed] = 0.0
        return self.layer
