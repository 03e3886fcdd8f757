"""Tensor trains: Novikov et al., Tensorizing Neural Networks, 2015."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import TensorTrainLayer, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class TensorTrain(Method):
    """Trains a network whose chosen layers are tensor trains from the start."""

    rank: int = 8
    """Rank between neighboring cores."""

    modes: int = 4
    """Number of cores of a layer: dimensions into which its inputs and outputs are split."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.modes < 2:
            raise ValueError(
                f"rank is at least 1 and modes at least 2, got rank={self.rank}, modes={self.modes}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with tensor trains."""
        for layer in linears(model, self.only).values():
            replace_(model, layer, TensorTrainLayer(layer, modes=self.modes, rank=self.rank))
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its tensor trains."""
        return model
