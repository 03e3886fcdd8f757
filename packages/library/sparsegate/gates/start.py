"""The gates' first values."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Start(abc.ABC):
    """Gives the gates of one weight their first values; consumes no randomness."""

    @abc.abstractmethod
    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Gates for this weight, in float32, on its device and in its memory format."""


@dataclass(frozen=True)
class Constant(Start):
    """Every gate starts at one value.

    >>> Constant(0.9)(torch.zeros(2))
    tensor([0.9000, 0.9000])
    """

    value: float = 0.9
    """The gates' first value, in [0, 1]; above 0.5 the weight starts open."""

    def __post_init__(self) -> None:
        _check_unit("value", self.value)

    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The constant, shaped like the weight."""
        return torch.full_like(weight, self.value, dtype=torch.float32)


@dataclass(frozen=True)
class Nonzero(Start):
    """For sparse weights: open where a weight is left, closed where it is zero.

    >>> Nonzero()(torch.tensor([3.0, 0.0, -4.0]))
    tensor([0.9000, 0.0000, 0.9000])

    A weight of zero gives its gate no gradient, so a closed gate stays closed. A tensor without any
    weight that is not zero, such as a last layer that is initialized with zeros, starts open.
    """

    value: float = 0.9
    """First value of the open gates, above 0.5 and at most 1."""

    def __post_init__(self) -> None:
        if not 0.5 < self.value <= 1:
            raise ValueError(f"value is that of an open gate, in (0.5, 1], got {self.value}")

    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The value where the weight is not zero, zero elsewhere."""
        gate = torch.full_like(weight, self.value, dtype=torch.float32)
        zero = weight.detach() == 0
        return gate if zero.all() else gate.masked_fill_(zero, 0.0)


@dataclass(frozen=True)
class LargestWeights(Start):
    """For pretrained weights: the largest start open, the others closed but close to opening.

    >>> LargestWeights(keep=0.5)(torch.tensor([3.0, -1.0, -4.0, 2.0]))
    tensor([1.0000, 0.4900, 1.0000, 0.4900])
    """

    keep: float = 0.05
    """Fraction of the weight's elements that start open, in (0, 1]; at least one always does."""

    closed: float = 0.49
    """First value of the other gates, in [0, 0.5]."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 95 % sparsity write keep=0.05"
            )
        if not 0 <= self.closed <= 0.5:
            raise ValueError(
                f"closed is the value of a closed gate, in [0, 0.5], got {self.closed}"
            )

    def __call__(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """One where the magnitude is among the largest, `closed` elsewhere; ties by position."""
        gate = torch.full_like(weight, self.closed, dtype=torch.float32)
        num_open = max(1, round(self.keep * weight.numel()))
        return gate.masked_fill_(
            _largest(weight.detach().abs().flatten(), num_open).reshape(weight.shape), 1.0
        )


def _largest(sizes: Float[Tensor, " weight"], count: int) -> Bool[Tensor, " weight"]:
    """Which are the `count` largest; of equal ones the first."""
    # Without sorting, which takes ten times as long for the hundred million weights of a layer.
    last = sizes.kthvalue(len(sizes) - count + 1).values
    chosen, level = sizes > last, sizes == last
    return chosen | (level & (level.cumsum(0) <= count - chosen.sum()))


def _check_unit(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a gate, a number in [0, 1], got {value}")
