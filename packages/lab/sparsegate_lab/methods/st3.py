"""ST-3: Vanderschueren and De Vleeschouwer, Straight-Through and Soft-Thresholding, 2023."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate_lab.layers import Layer, Thresholded, straight_through
from sparsegate_lab.thresholding import Thresholding


@dataclass(frozen=True)
class ST3(Thresholding):
    """Trains with soft-thresholded weights, and passes their gradients on to all weights."""

    # Differs from Vanderschueren and De Vleeschouwer 2023: 1. the threshold is the same in all
    # layers, without their variant in units of each layer's spread. 2. the factor that makes up for
    # the shrinking restores the mean magnitude of the weights that are used.

    rescale: bool = True
    """Multiply the weights that are used, to restore their mean magnitude before shrinking."""

    def wrapped(self, layer: Layer) -> Thresholded:
        """The layer with a soft threshold."""
        return SoftThreshold(layer, rescale=self.rescale)


class SoftThreshold(Thresholded):
    """Weights above the threshold are shrunk by it; all weights get a gradient."""

    def __init__(self, layer: Layer, *, rescale: bool) -> None:
        super().__init__(layer)
        self.rescale = rescale

    def used(self) -> Float[Tensor, "..."]:
        """The soft-thresholded weight."""
        weight = self.layer.weight
        return straight_through(weight, shrunk(weight, self.threshold, rescale=self.rescale))


@torch.no_grad()
def shrunk(
    weight: Float[Tensor, "*shape"], threshold: Float[Tensor, ""], *, rescale: bool
) -> Float[Tensor, "*shape"]:
    """Weights moved towards zero by the threshold, as far as zero.

    >>> shrunk(torch.tensor([0.5, -2.0, 4.0]), torch.tensor(1.0), rescale=False)
    tensor([ 0., -1.,  3.])
    >>> shrunk(torch.tensor([0.5, -2.0, 4.0]), torch.tensor(1.0), rescale=True)
    tensor([ 0.0000, -1.5000,  4.5000])
    """
    sizes = weight.abs()
    left = (sizes - threshold).clamp_min_(0.0)
    if rescale:
        before = torch.where(left > 0, sizes, 0.0).sum()
        left *= before / left.sum().clamp_min(1e-30)
    return torch.copysign(left, weight).add_(0.0)  # -0.0 becomes +0.0
