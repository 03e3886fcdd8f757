"""Predicted weights: Denil et al., Predicting Parameters in Deep Learning, 2013."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate_lab.layers import StandIn, linears, replace_
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


RIDGE = 1e-2  # keeps the kernel's inverse from blowing up where two learned pixels are close


class PredictedLayer(StandIn):
    """Learns the weights at a few pixels; kernel regression over the image predicts the others.

    >>> PredictedLayer(nn.Linear(800, 500), channels=50, keep=0.25).num_values  # 4 of 16 pixels
    100000

    The inputs are the channels of a square image. Prediction is linear in the learned weights, so
    its fixed part acts on the inputs, and the predicted weight is never built.
    """

    # Differs from Denil et al. 2013: 1. one kernel, the squared exponential of the pixels'
    # distance; theirs are also covariances of the data, and several sets of pixels.
    # 2. all channels learn at the same pixels.

    def __init__(
        self, layer: nn.Linear, *, channels: int, keep: float, width: float = 1.0, seed: int = 0
    ) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        side = picture_side(layer.in_features, channels)
        num_learned = max(1, round(keep * side * side))
        draw = torch.Generator().manual_seed(seed)
        learned = torch.randperm(side * side, generator=draw)[:num_learned].sort().values
        dictionary = _dictionary(side, learned, width)
        self.register_buffer("dictionary", dictionary, persistent=False)
        # He's start: outputs of variance 2 for inputs of variance 1.
        deviation = (2 / channels) ** 0.5 / float(dictionary.norm())
        self.learned = nn.Parameter(
            deviation * torch.randn(layer.out_features, channels * num_learned)
        )
        self.bias = nn.Parameter(layer.bias.detach().clone()) if layer.bias is not None else None
        self.to(layer.weight.device, layer.weight.dtype)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the layer."""
        dictionary = self.get_buffer("dictionary")
        seen = (x.reshape(*x.shape[:-1], -1, len(dictionary)) @ dictionary).flatten(-2)
        return F.linear(seen, self.learned, self.bias)


def picture_side(inputs: int, channels: int) -> int:
    """The side of a square image with this many channels and inputs.

    >>> picture_side(800, 50)
    4
    """
    side = math.isqrt(inputs // max(1, channels))
    if channels < 1 or channels * side * side != inputs:
        raise ValueError(
            f"{inputs} inputs are not a square image of {channels} channels; choose a layer that "
            "reads images, or set channels"
        )
    return side


def _dictionary(side: int, learned: Tensor, width: float) -> Float[Tensor, "pixels learned"]:
    """What the weight at every pixel takes from each learned one: k (K + ridge)^-1."""
    across = torch.arange(side, dtype=torch.float64)
    pixels = torch.cartesian_prod(across, across)
    kernel = torch.exp(-torch.cdist(pixels, pixels).square() / (2 * width * width))
    inner = kernel[learned][:, learned] + RIDGE * torch.eye(len(learned), dtype=torch.float64)
    dictionary: Tensor = torch.linalg.solve(inner, kernel[learned]).T.float()
    return dictionary
