"""Gates that start in the order in which their weights matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .start import Start

LOWEST = 0.51  # still open
SLOPE = 1 / 32  # by how much a gate is lower for a share that is ten times smaller
BINS = 2**19  # of the numbers from zero up, in the order of their bits
COARSE = 12  # bits of a number that do not matter for its bin: 11 of the 23 behind the point are left


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
            raise ValueError("gates by the size of weights need weights that are numbers, got some that are none")
        squares = sizes.square_()
        sums, bins = tail_sums(squares)
        shares = squares.div_(sums[bins])
        gate = shares.log10_().mul_(self.slope).add_(1).nan_to_num_(nan=LOWEST).clamp_(LOWEST, 1.0)
        return torch.empty_like(weight, dtype=torch.float32).copy_(gate)


def tail_sums(
    squares: Float[Tensor, "*shape"], total: Callable[[Tensor], Tensor] = lambda here: here
) -> tuple[Float[Tensor, " bin"], Int[Tensor, "*shape"]]:
    """For every bin of numbers from zero up the sum of those that are no smaller, and the bin of each number.

    `total` adds up what several processes have found, each in its part.
    """
    bins = squares.view(torch.int32) >> COARSE  # numbers from zero up are in the order of their bits
    here = torch.bincount(bins.flatten(), weights=squares.flatten().double(), minlength=BINS)
    return total(here).flip(0).cumsum(0).flip(0).float(), bins
