"""Circulant projections: Cheng et al., An Exploration of Parameter Redundancy, 2015."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import CirculantLayer, linears, replace_
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
