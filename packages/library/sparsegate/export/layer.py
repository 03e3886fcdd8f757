"""The layers of a small network after everything that can be folded is folded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

Pair: TypeAlias = tuple[int, int]
Shape: TypeAlias = tuple[int, int, int]
"""Channels, height and width; features are channels of one place."""


@dataclass(frozen=True, eq=False)
class ConvLayer:
    """A convolution, after it perhaps max pooling in whole tiles and a rectifier."""

    weight: Tensor
    bias: Tensor
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    tile: int = 1
    """Side of the square tiles over whose places the largest value is taken."""
    relu: bool = False

    def run(self, value: Tensor) -> Tensor:
        """What PyTorch makes of a batch."""
        value = F.conv2d(
            value, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )
        return _rectified(F.max_pool2d(value, self.tile) if self.tile > 1 else value, self.relu)


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """A fully connected layer, after it perhaps a rectifier."""

    weight: Tensor
    bias: Tensor
    relu: bool = False

    def run(self, value: Tensor) -> Tensor:
        """What PyTorch makes of a batch."""
        return _rectified(F.linear(value.flatten(1), self.weight, self.bias), self.relu)[
            :, :, None, None
        ]


@dataclass(frozen=True, eq=False)
class PoolLayer:
    """Largest or mean value in windows, after it perhaps a rectifier."""

    kind: str
    """`max` or `mean`."""
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    counts_padding: bool = True
    """Whether a mean counts the zeros of the padding."""
    relu: bool = False

    def run(self, value: Tensor) -> Tensor:
        """What PyTorch makes of a batch."""
        if self.kind == "max":
            value = F.max_pool2d(
                value, self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode
            )
        else:
            value = F.avg_pool2d(
                value, self.kernel, self.stride, self.padding, self.ceil_mode, self.counts_padding
            )
        return _rectified(value, self.relu)


Layer: TypeAlias = ConvLayer | LinearLayer | PoolLayer


def scaled(layer: ConvLayer | LinearLayer, scale: Tensor, shift: Tensor) -> ConvLayer | LinearLayer:
    """The layer with its units multiplied by scales, and shifts added."""
    weight = layer.weight * scale.view(-1, *[1] * (layer.weight.ndim - 1))
    return replace(layer, weight=weight, bias=layer.bias * scale + shift)


def unit_wise(scale: Tensor, shift: Tensor) -> ConvLayer:
    """Scales and shifts as a convolution of its own."""
    return ConvLayer(scale.view(-1, 1, 1, 1), shift, groups=len(scale))


def num_weights(layers: list[Layer]) -> int:
    """Weights that are not zero."""
    return sum(
        int(torch.count_nonzero(each.weight)) for each in layers if not isinstance(each, PoolLayer)
    )


def _rectified(value: Tensor, relu: bool) -> Tensor:
    return F.relu(value) if relu else value
