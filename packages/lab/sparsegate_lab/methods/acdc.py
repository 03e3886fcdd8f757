"""Cascades of diagonals and cosine transforms: Moczulski et al., ACDC, 2015."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import Acdc as AcdcLayer
from sparsegate_lab.layers import linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Acdc(Method):
    """Trains a network whose chosen layers are ACDC cascades from the start."""

    # Differs from Moczulski et al. 2015: 1. one learning rate for A and D, where theirs are 24 and 12 times the
    # network's.

    depth: int = 12
    """Steps A C D C^-1 of a cascade."""

    width: int | None = None
    """Numbers that a cascade works on; None: the layer's larger side."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    diagonal_lr: float = 0.3
    """First learning rate of the diagonals, which have no weight decay; a cosine takes it to zero."""

    permutation: int = 0
    """Seed of the permutations; with it they need not be stored."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth is at least 1, got {self.depth}")
        if not self.diagonal_lr > 0:
            raise ValueError(f"diagonal_lr is above zero, got {self.diagonal_lr}")

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts cascades in the place of the chosen layers."""
        for place, layer in enumerate(linears(model, self.only).values()):
            seed = self.permutation + place
            replace_(model, layer, AcdcLayer(layer, depth=self.depth, width=self.width, seed=seed))
        return model

    def weights(self, model: nn.Module) -> list[nn.Parameter]:
        """Everything but the diagonals."""
        diagonals = set(_diagonals(model))
        return [each for each in model.parameters() if each not in diagonals]

    def optimizer(self, model: nn.Module) -> Optimizer:
        """The diagonals' own, without weight decay."""
        return torch.optim.SGD(_diagonals(model), lr=self.diagonal_lr, momentum=0.9)

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Sets the diagonals' learning rate."""
        assert optimizer is not None
        for group in optimizer.param_groups:
            group["lr"] = self.diagonal_lr * cosine(progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its cascades."""
        return model


def _diagonals(model: nn.Module) -> list[nn.Parameter]:
    cascades = [module for module in model.modules() if isinstance(module, AcdcLayer)]
    return [each for cascade in cascades for each in cascade.parameters()]
