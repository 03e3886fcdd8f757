"""Draws binary masks from real gates."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

OPEN_ABOVE = 0.5  # the paper's threshold; a gate of exactly 0.5 is closed


class Draw(abc.ABC):
    """CONTRACT: makes masks from gates, and knows the statistics of these masks."""

    @abc.abstractmethod
    def score(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What the training mask comes from: above 0.5 where a weight takes part."""

    def mask(self, gate: Float[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """The training mask: true where a weight takes part."""
        return self.score(gate) > OPEN_ABOVE

    @abc.abstractmethod
    def keep(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The expected fraction of weights that a mask keeps."""

    def num_kept(self, gate: Float[Tensor, "*shape"], *, lowered: Tensor) -> Num[Tensor, ""]:
        """The expected number of weights that a mask keeps with all gates lowered."""
        return self.keep((gate - lowered).clamp(0.0, 1.0)) * gate.numel()  # a mean over one weight

    @abc.abstractmethod
    def variance(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The variance of one element of the mask, averaged over the gates."""


@dataclass(frozen=True)
class Threshold(Draw):
    """Open where the gate is above 0.5: the paper's maximum-likelihood draw, the same every time.

    >>> Threshold().mask(torch.tensor([0.2, 0.5, 0.9]))
    tensor([False, False,  True])
    """

    def score(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The gate itself."""
        return gate

    def keep(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The fraction of gates above 0.5."""
        return (gate > OPEN_ABOVE).float().mean()

    def num_kept(self, gate: Float[Tensor, "*shape"], *, lowered: Tensor) -> Num[Tensor, ""]:
        """The number of gates above 0.5: one pass, where the general form takes five."""
        return (gate > OPEN_ABOVE + lowered).sum()

    def variance(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """Zero, because nothing is random."""
        return gate.new_zeros(())


@dataclass(frozen=True)
class Sample(Draw):
    """Open with the gate as probability: the paper's unbiased draw, new at every forward pass.

    The mask comes from torch's global random state, as dropout does. With several processes, seed
    each one differently, or all of them draw the same mask.

    >>> Sample().mask(torch.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def score(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Above 0.5 with probability `gate`; a gate of 0 never opens, one of 1 never closes."""
        return gate - torch.rand_like(gate) + OPEN_ABOVE

    def keep(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The mean gate."""
        return gate.mean()

    def variance(self, gate: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The mean of g(1-g), at most 0.25."""
        return (gate * (1 - gate)).mean()
