"""Low-rank factors by SVD: Denton et al., Exploiting Linear Structure, 2014."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate_lab.layers import StandIn, linears, replace_, stand_ins
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class Svd(Method):
    """Trains densely, factors the weights of chosen layers, and trains the factors."""

    # Differs from Denton et al. 2014: 1. fully connected layers only, as in our paper's table; they
    # factor convolutions too. 2. fine-tuning is the rest of the same training, on the same cosine.

    rank: int = 10
    """Rank of the factors of every chosen layer."""

    fraction: float | None = None
    """Rank as a fraction of a layer's smaller side, instead of `rank`; 0.25 is SVD-quarter."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are factored, such as fc*"""

    at: float = 0.5
    """Fraction of training before the weights are factored; 1 trains no further."""

    def __post_init__(self) -> None:
        if not 0 <= self.at <= 1:
            raise ValueError(f"at is a fraction of training in [0, 1], got {self.at}")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(
                f"fraction is in (0, 1], got {self.fraction}; for a quarter of the rank write 0.25"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Checks the ranks; a resumed run gets factors if it had them."""
        for name, layer in linears(model, self.only).items():
            rank, most = self._rank(layer), min(layer.weight.shape)
            if not 1 <= rank <= most:
                shape = tuple(layer.weight.shape)
                raise ValueError(
                    f"rank is from 1 to {most} for {name}.weight of shape {shape}, got {rank}"
                )
        self._factor_(model, progress)
        return model

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Factors the weights when it is time."""
        self._factor_(model, progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its factors."""
        return model

    def _factor_(self, model: nn.Module, progress: float) -> None:
        if progress >= self.at and not stand_ins(model):
            for layer in linears(model, self.only).values():
                replace_(model, layer, LowRank(layer, rank=self._rank(layer)))

    def _rank(self, layer: nn.Linear) -> int:
        smaller = min(layer.weight.shape)
        return self.rank if self.fraction is None else max(1, int(self.fraction * smaller))


class LowRank(StandIn):
    """The best approximation of a layer's weight of this rank, as two trainable factors.

    >>> LowRank(nn.Linear(800, 500), rank=10).num_values  # 10 * (800 + 500)
    13000
    """

    def __init__(self, layer: nn.Linear, *, rank: int) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        if not 1 <= rank <= min(self.stands_for):
            raise ValueError(
                f"rank is from 1 to {min(self.stands_for)} for a weight of {self.stands_for}, "
                f"got {rank}"
            )
        left, values, right = torch.linalg.svd(layer.weight.detach().float(), full_matrices=False)
        scale = values[:rank].sqrt()  # shared by both, so that one learning rate suits both
        self.left = nn.Parameter((left[:, :rank] * scale).to(layer.weight.dtype))
        self.right = nn.Parameter((scale[:, None] * right[:rank]).to(layer.weight.dtype))
        self.bias = layer.bias

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the layer."""
        return F.linear(F.linear(x, self.right), self.left, self.bias)
