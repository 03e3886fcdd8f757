"""Circulant projections: Cheng et al., An Exploration of Parameter Redundancy, 2015."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate_lab.layers import StandIn, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Circulant(Method):
    """Trains a network whose chosen layers are circulant from the start."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    signs: int = 0
    """Seed of the random signs of the inputs, which are not stored."""

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with circulant ones."""
        for index, layer in enumerate(linears(model, self.only).values()):
            replace_(model, layer, CirculantLayer(layer, seed=self.signs + index))
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its circulant layers."""
        return model


class CirculantLayer(StandIn):
    """A weight whose rows are shifts of one vector, after random sign flips of the inputs.

    >>> CirculantLayer(nn.Linear(800, 500)).num_values
    800

    The product is a convolution, by Fourier transforms in O(n log n). A layer with more outputs
    than inputs has several circulant matrices; one with fewer uses the first rows.
    """

    # Differs from Cheng et al. 2015: 1. the vector starts as a row of He's start does.

    def __init__(self, layer: nn.Linear, *, seed: int = 0) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        size, blocks = layer.in_features, -(-layer.out_features // layer.in_features)
        self.vectors = nn.Parameter(torch.randn(blocks, size) * (2 / size) ** 0.5)
        self.bias = nn.Parameter(layer.bias.detach().clone()) if layer.bias is not None else None
        draw = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, (size,), generator=draw).float() * 2 - 1
        self.register_buffer("signs", signs, persistent=False)
        self.to(layer.weight.device)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs, in full precision."""
        spectrum = torch.fft.rfft((x * self.get_buffer("signs")).float()).unsqueeze(-2)
        mixed = torch.fft.irfft(spectrum * torch.fft.rfft(self.vectors.float()), n=x.shape[-1])
        y: Tensor = mixed.flatten(-2)[..., : self.stands_for[0]]
        return y if self.bias is None else y + self.bias
