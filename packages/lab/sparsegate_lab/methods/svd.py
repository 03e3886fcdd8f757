"""Low-rank factors by singular value decomposition: Denton et al., Exploiting Linear Structure, 2014."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import LowRank, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Svd(Method):
    """Trains the dense network, cuts the weights of chosen layers to a low rank, and trains the factors."""

    # Differs from Denton et al. 2014: 1. fully connected layers only, as the paper's table has it; their
    # convolutions are factored, too. 2. fine-tuning is the rest of the same training, on the same cosine.

    rank: int = 10
    """Rank that is left of every chosen layer."""

    fraction: float | None = None
    """Rank as a fraction of a layer's smaller side, in the place of rank: 0.25 is SVD-quarter."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are factored, such as fc*"""

    at: float = 0.5
    """Fraction of training after which the factors take over; 1 leaves them as they are cut."""

    def __post_init__(self) -> None:
        if not 0 <= self.at <= 1:
            raise ValueError(f"at is a fraction of training in [0, 1], got {self.at}")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(
                f"fraction is in (0, 1], got {self.fraction}; for a quarter of the rank write 0.25"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """The dense model, if it has the layers."""
        for name, layer in linears(model, self.only).items():
            rank, most = self._rank(layer), min(layer.weight.shape)
            if not 1 <= rank <= most:
                raise ValueError(
                    f"rank is from 1 to {most} for {name}.weight of {tuple(layer.weight.shape)}: {rank}"
                )
        return model

    def rebuild_at(self) -> float:
        """The end of the dense training."""
        return self.at

    def rebuild(self, model: nn.Module) -> nn.Module:
        """Puts factors in the place of the chosen layers."""
        for layer in linears(model, self.only).values():
            replace_(model, layer, LowRank(layer, rank=self._rank(layer)))
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its factors."""
        return model

    def _rank(self, layer: nn.Linear) -> int:
        smaller = min(layer.weight.shape)
        return self.rank if self.fraction is None else max(1, int(self.fraction * smaller))
