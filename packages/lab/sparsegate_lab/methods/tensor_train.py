"""Tensor trains: Novikov et al., Tensorizing Neural Networks, 2015."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate_lab.layers import StandIn, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class TensorTrain(Method):
    """Trains a network whose chosen layers are tensor trains from the start."""

    rank: int = 8
    """Rank between neighboring cores."""

    modes: int = 4
    """Number of cores of a layer: dimensions into which its inputs and outputs are split."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.modes < 2:
            raise ValueError(
                f"rank is at least 1 and modes at least 2, got rank={self.rank}, modes={self.modes}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with tensor trains."""
        for layer in linears(model, self.only).values():
            replace_(model, layer, TensorTrainLayer(layer, modes=self.modes, rank=self.rank))
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its tensor trains."""
        return model


class TensorTrainLayer(StandIn):
    """A weight as a chain of small cores, each of one input mode, one output mode and two ranks.

    >>> layer = TensorTrainLayer(nn.Linear(800, 500), modes=4, rank=8)
    >>> layer.inputs, layer.outputs
    ([5, 5, 8, 4], [5, 5, 5, 4])
    >>> layer.num_values  # 5*5*8 + 8*5*5*8 + 8*8*5*8 + 8*4*4
    4488

    Inputs and outputs are tensors with `modes` dimensions: their prime factors, spread evenly.
    """

    # Differs from Novikov et al. 2015: 1. the modes are found, not chosen by hand. 2. cores start
    # so that the weight has the variance of He's initialization; the paper does not say how.

    def __init__(self, layer: nn.Linear, *, modes: int = 4, rank: int = 8) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        if modes < 2 or rank < 1:
            raise ValueError(f"expected modes >= 2 and rank >= 1, got modes={modes}, rank={rank}")
        self.inputs, self.outputs = (
            _modes(layer.in_features, modes),
            _modes(layer.out_features, modes),
        )
        self.ranks = [1, *(rank for _ in range(modes - 1)), 1]
        # An entry of the weight is a sum of rank^(modes-1) products of one number of each core.
        deviation = (2 / layer.in_features / rank ** (modes - 1)) ** (0.5 / modes)
        sizes = zip(self.ranks, self.inputs, self.outputs, self.ranks[1:], strict=False)
        # As matrices: (left rank, input mode) by (output mode, right rank).
        self.cores = nn.ParameterList(
            nn.Parameter(deviation * torch.randn(left * read, made * right))
            for left, read, made, right in sizes
        )
        self.bias = nn.Parameter(layer.bias.detach().clone()) if layer.bias is not None else None
        self.to(layer.weight.device, layer.weight.dtype)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs, by one product with every core."""
        num = x.shape[:-1].numel()
        left, rest = (
            x.reshape(num, 1, -1),
            x.shape[-1],
        )  # (batch and modes made, rank, modes to read)
        for core, read, made, rank in zip(
            self.cores, self.inputs, self.outputs, self.ranks[1:], strict=True
        ):
            rest //= read
            rows = left.reshape(len(left), -1, rest).transpose(
                1, 2
            )  # (..., modes to read, rank and this mode)
            done = (rows @ core).reshape(len(left), rest, made, rank)
            left = done.permute(0, 2, 3, 1).reshape(len(left) * made, rank, rest)
        y = left.reshape(*x.shape[:-1], self.stands_for[0])
        return y if self.bias is None else y + self.bias


def _modes(size: int, num: int) -> list[int]:
    """The given number of factors of a number, as even as its primes allow.

    >>> _modes(800, 4), _modes(784, 4), _modes(10, 4)
    ([5, 5, 8, 4], [7, 7, 4, 4], [5, 2, 1, 1])
    """
    modes = [1] * num
    for prime in _primes(size):
        smallest = min(range(num), key=modes.__getitem__)
        modes[smallest] *= prime
    return modes


def _primes(size: int) -> list[int]:
    """The prime factors of a number, largest first."""
    factors: list[int] = []
    divisor = 2
    while divisor * divisor <= size:
        while size % divisor == 0:
            factors.append(divisor)
            size //= divisor
        divisor += 1
    return sorted([*factors, size] if size > 1 else factors, reverse=True)
