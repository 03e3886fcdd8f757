"""Tensor trains: Novikov et al., Tensorizing Neural Networks, 2015."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import TensorTrain as TensorTrainLayer
from sparsegate_lab.layers import linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class TensorTrain(Method):
    """Trains a network whose chosen layers are tensor trains from the start."""

    rank: int = 8
    """Rank between two cores."""

    modes: int = 4
    """Cores of a layer: its inputs and outputs are seen as tensors with so many dimensions."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.modes < 2:
            raise ValueError(
                f"rank is at least 1 and modes at least 2, got rank={self.rank}, modes={self.modes}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts tensor trains in the place of the chosen layers."""
        for layer in linears(model, self.only).values():
            replace_(model, layer, TensorTrainLayer(layer, modes=self.modes, rank=self.rank))
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its tensor trains."""
        return model
