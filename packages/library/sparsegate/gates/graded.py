"""Gates that start in the order in which their weights matter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .start import Start

LOWEST = 0.51  # still open
SLOPE = 1 / 32
COARSE = (
    12  # bits of a number that do not matter for its bin: 11 of the 23 behind the point are left
)


@dataclass(frozen=True)
class Graded(Start):
    """Every gate starts open, the lower the less its weight matters in its layer: for pretrained weights.

    >>> Graded()(torch.tensor([1.0, -0.1, 0.001]))
    tensor([1.0000, 0.9374, 0.8124])

    A price, or a target, then closes the least important weights first, of all layers together. What counts is a
    weight's share: its square over the sum of all squares in its layer that are no smaller (LAMP; Lee et al., 2021).
    Shares of different layers can be compared, and no layer is lost. A gate falls by 1/32 for a factor of ten.
    """

    # Differs from Lee et al.: weights that are equal in their first eleven bits count as equal, so that nothing need be
    # sorted, which takes ten seconds for the hundred million weights of a large layer.

    slope: float = SLOPE
    """By how much a gate is lower for a share that is ten times smaller."""

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"slope is above zero, got {self.slope}")

    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """One for the largest weight, less for all others, always open."""
        sizes = weight.detach().float().abs()
        if not sizes.isfinite().all():
            raise ValueError(
                "gates by the size of weights need weights that are numbers, got some that are none"
            )
        bins = (
            sizes.view(torch.int32) >> COARSE
        )  # numbers from zero up are in the order of their bits
        sums = torch.bincount(bins.flatten(), weights=sizes.flatten().double().square_())
        no_smaller = sums.flip(0).cumsum(0).flip(0).float()
        shares = sizes.square_().div_(no_smaller[bins])
        return torch.empty_like(weight, dtype=torch.float32).copy_(graded_(shares, self.slope))


def graded_(shares: Float[Tensor, "*shape"], slope: float = SLOPE) -> Float[Tensor, "*shape"]:
    """Gates for shares of something, in their place: one for a share of one, lower by `slope` for a tenth, all open."""
    return shares.log10_().mul_(slope).add_(1).nan_to_num_(nan=LOWEST).clamp_(LOWEST, 1.0)
