"""Starts gates in the order of their weights' importance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .start import Start

LOWEST = 0.51  # still open
SLOPE = 1 / 32
COARSE = 12  # bits of a number that do not matter for its bin: 11 of 23 fraction bits are left


@dataclass(frozen=True)
class Graded(Start):
    """For pretrained weights: gates start open, lower if their weight matters less in its layer.

    >>> Graded()(torch.tensor([1.0, -0.1, 0.001]))
    tensor([1.0000, 0.9374, 0.8124])

    A price or a target then closes the least important weights of all layers first. A weight's
    importance is its square over the sum of all squares in its layer that are no smaller (LAMP;
    Lee et al., 2021). It can be compared between layers, and no layer is lost.
    """

    # Differs from Lee et al.: weights that agree in their first eleven bits count as equal, which
    # avoids sorting. Sorting takes ten seconds for the hundred million weights of a large layer.

    slope: float = SLOPE
    """How much lower a gate starts if its importance is ten times smaller."""

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"slope is above zero, got {self.slope}")

    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """One for the largest weight, less for all others, always open."""
        sizes = weight.detach().float().abs()
        if not sizes.isfinite().all():
            raise ValueError("Graded needs finite weights, and some are NaN or infinite")
        bins = (
            sizes.view(torch.int32) >> COARSE
        )  # numbers from zero up are in the order of their bits
        sums = torch.bincount(bins.flatten(), weights=sizes.flatten().double().square_())
        no_smaller = sums.flip(0).cumsum(0).flip(0).float()
        shares = sizes.square_().div_(no_smaller[bins])
        return torch.empty_like(weight, dtype=torch.float32).copy_(graded_(shares, self.slope))


def graded_(shares: Float[Tensor, "*shape"], slope: float = SLOPE) -> Float[Tensor, "*shape"]:
    """Turns shares into open gates, in place: 1 for a share of 1, lower by `slope` for 0.1."""
    return shares.log10_().mul_(slope).add_(1).nan_to_num_(nan=LOWEST).clamp_(LOWEST, 1.0)
