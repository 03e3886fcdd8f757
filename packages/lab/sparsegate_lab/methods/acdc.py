"""Cascades of diagonals and cosine transforms: Moczulski et al., ACDC, 2015."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import AcdcLayer, linears, replace_
from sparsegate_lab.method import Method, Training, scale_lr_


@dataclass(frozen=True)
class Acdc(Method):
    """Trains a network whose chosen layers are ACDC cascades from the start."""

    # Differs from Moczulski et al. 2015: 1. one learning rate for A and D, where theirs are 24 and
    # 12 times the network's.

    depth: int = 12
    """Number of steps A C D C^-1 of a cascade."""

    width: int | None = None
    """Width of a cascade; None: the larger side of the layer."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    diagonal_lr: float = 0.3
    """Initial learning rate of the diagonals, without weight decay; falls along a cosine."""

    permutation: int = 0
    """Seed of the permutations, which are not stored."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth is at least 1, got {self.depth}")
        if not self.diagonal_lr > 0:
            raise ValueError(f"diagonal_lr is above zero, got {self.diagonal_lr}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with cascades."""
        for index, layer in enumerate(linears(model, self.only).values()):
            seed = self.permutation + index
            replace_(model, layer, AcdcLayer(layer, depth=self.depth, width=self.width, seed=seed))
        return model

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """The run's SGD, and one for the diagonals without weight decay."""
        diagonals = _diagonals(model)
        others = [each for each in model.parameters() if each not in set(diagonals)]
        own = torch.optim.SGD(diagonals, lr=self.diagonal_lr, momentum=0.9)
        return [training.sgd(others), own]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Lets both learning rates follow a cosine."""
        weights, diagonals = optimizers
        scale_lr_(weights, cosine(progress))
        for group in diagonals.param_groups:
            group["lr"] = self.diagonal_lr * cosine(progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its cascades."""
        return model


def _diagonals(model: nn.Module) -> list[nn.Parameter]:
    cascades = [module for module in model.modules() if isinstance(module, AcdcLayer)]
    return [each for cascade in cascades for each in cascade.parameters()]
