"""Predicted weights: Denil et al., Predicting Parameters in Deep Learning, 2013."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import PredictedLayer, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Predicted(Method):
    """Trains a network whose chosen layers learn some weights and predict the others."""

    keep: float = 0.25
    """Fraction of the pixels at which weights are learned."""

    width: float = 1.0
    """Width of the kernel in pixels: how far a learned weight predicts its neighbors."""

    channels: int | None = None
    """Channels of the image that a layer reads; None: those of the last convolution before it."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    pixels: int = 0
    """Seed of the choice of pixels, which is not stored."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; "
                "for every fourth pixel write keep=0.25"
            )
        if not self.width > 0:
            raise ValueError(f"width is above zero, got {self.width}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with predicting ones."""
        for index, (name, layer) in enumerate(linears(model, self.only).items()):
            channels = _channels(model, name) if self.channels is None else self.channels
            new = PredictedLayer(
                layer, channels=channels, keep=self.keep, width=self.width, seed=self.pixels + index
            )
            replace_(model, layer, new)
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its predicting layers."""
        return model


def _channels(model: nn.Module, name: str) -> int:
    """Channels of the last convolution before a layer; one if there is none."""
    channels = 1
    for path, module in model.named_modules():
        if path == name:
            break
        if isinstance(module, nn.Conv2d):
            channels = module.out_channels
    return channels
