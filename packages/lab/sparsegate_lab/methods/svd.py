"""Low-rank factors by SVD: Denton et al., Exploiting Linear Structure, 2014."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import LowRank, linears, replace_, stand_ins
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
