"""Feather: Glentis Georgoulakis, Retsinas and Maragos, Effective DNN Sparsification, 2023."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate_lab.layers import Layer, Thresholded, straight_through
from sparsegate_lab.thresholding import Thresholding

VERY_SPARSE = 0.05  # fraction of weights at which the authors halve the gradients of the others


@dataclass(frozen=True)
class Feather(Thresholding):
    """As ST-3, with a threshold between soft and hard, and damped gradients of unused weights."""

    # Differs from Glentis Georgoulakis et al. 2023: 1. the gradients of unused weights are halved
    # from 95 % sparsity on, unless `to_unused` says otherwise.

    power: float = 3.0
    """Shape of the threshold: 1 is soft, infinity hard."""

    to_unused: float | None = None
    """Factor on the gradients of weights that are not used; None: 1, or 0.5 if keep <= 0.05."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.power >= 1:
            raise ValueError(f"power is at least 1, got {self.power}")
        if self.to_unused is not None and not 0 <= self.to_unused <= 1:
            raise ValueError(f"to_unused is a factor in [0, 1], got {self.to_unused}")

    def wrapped(self, layer: Layer) -> Thresholded:
        """The layer with a threshold of this shape."""
        factor = self.to_unused
        if factor is None:
            factor = 0.5 if self.keep <= VERY_SPARSE else 1.0
        return PowerThreshold(layer, power=self.power, to_unused=factor)


class PowerThreshold(Thresholded):
    """Weights just above the threshold are near zero, larger ones nearly unchanged."""

    def __init__(self, layer: Layer, *, power: float, to_unused: float) -> None:
        super().__init__(layer)
        self.power, self.to_unused = power, to_unused

    def used(self) -> Float[Tensor, "..."]:
        """The thresholded weight."""
        weight = self.layer.weight
        used = pressed(weight, self.threshold, self.power)
        return straight_through(weight, used, to_unused=self.to_unused)


@torch.no_grad()
def pressed(
    weight: Float[Tensor, "*shape"], threshold: Float[Tensor, ""], power: float
) -> Float[Tensor, "*shape"]:
    """`(|w|^p - t^p)^(1/p)` with the weight's sign; zero up to the threshold.

    >>> pressed(torch.tensor([0.5, -2.0]), torch.tensor(1.0), 1.0)
    tensor([ 0., -1.])
    >>> pressed(torch.tensor([0.5, -2.0]), torch.tensor(1.0), 3.0)
    tensor([ 0.0000, -1.9129])
    """
    sizes = weight.abs()
    # In units of the weight, so that no power underflows.
    share = (threshold / sizes.clamp_min(1e-30)).clamp_max_(1.0)
    left = sizes * (1 - share.pow(power)).pow(1 / power)
    left = torch.where(sizes > threshold, left, 0.0)
    return torch.copysign(left, weight).add_(0.0)  # -0.0 becomes +0.0
