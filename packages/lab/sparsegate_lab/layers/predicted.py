"""A fully connected layer on images that learns some weights and predicts the others."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .stand_in import StandIn

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
