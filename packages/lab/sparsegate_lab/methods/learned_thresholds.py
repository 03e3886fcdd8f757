"""STR: Kusupati et al., Soft Threshold Weight Reparameterization for Learnable Sparsity, 2020."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate_lab.layers import Layer, Thresholded
from sparsegate_lab.thresholding import Thresholding


@dataclass(frozen=True)
class LearnedThresholds(Thresholding):
    """Learns a soft threshold for every layer, together with the weights."""

    # Differs from Kusupati et al. 2020: 1. all thresholds are multiplied by a common factor, so
    # that the scheduled fraction of weights is left; there, the weight decay alone decides.

    start: float = -3.0
    """Initial value of every layer's threshold, before the sigmoid."""

    def wrapped(self, layer: Layer) -> Thresholded:
        """The layer with a threshold of its own."""
        return LearnedThreshold(layer, start=self.start)


class LearnedThreshold(Thresholded):
    """Weights are shrunk by the layer's learned threshold times the common one."""

    def __init__(self, layer: Layer, *, start: float) -> None:
        super().__init__(layer)
        self.own = nn.Parameter(torch.full((), start))

    def sizes(self) -> Float[Tensor, "..."]:
        """Magnitudes in units of the layer's threshold."""
        return self.layer.weight.detach().abs() / torch.sigmoid(self.own.detach())

    def used(self) -> Float[Tensor, "..."]:
        """The soft-thresholded weight; weights below the threshold get no gradient."""
        weight = self.layer.weight
        left = torch.relu(weight.abs() - torch.sigmoid(self.own) * self.threshold)
        # By the sizes: the difference above may be rounded to the other side of zero.
        return torch.where(self.sizes() > self.threshold, left * weight.sign(), 0.0)
