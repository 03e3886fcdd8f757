"""Product quantisation: Gong et al., Compressing Deep Convolutional Networks using Vector Quantization, 2014."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import Codebook, check_codebook, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class ProductQuantised(Method):
    """Trains the dense network, then pieces the rows of chosen layers together from small codebooks."""

    # Differs from Gong et al. 2014: 1. the codebooks may be trained on, which the paper does not do.

    length: int = 8
    """Weights of one row that share a code."""

    num_codes: int = 16
    """Vectors to choose from, for each stretch of the rows; at most 256."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are quantised."""

    at: float = 1.0
    """Fraction of training after which codebooks take over; 1 trains no more after it, as the paper does."""

    start: int = 0
    """Seed of the k-means that finds the codebooks."""

    def __post_init__(self) -> None:
        if not 0 <= self.at <= 1:
            raise ValueError(f"at is a fraction of training in [0, 1], got {self.at}")

    def prepare(self, model: nn.Module) -> nn.Module:
        """The dense model, if its layers can be quantised so."""
        for layer in linears(model, self.only).values():
            check_codebook((layer.out_features, layer.in_features), self.length, self.num_codes)
        return model

    def rebuild_at(self) -> float:
        """The end of the dense training."""
        return self.at

    def rebuild(self, model: nn.Module) -> nn.Module:
        """Puts codebooks in the place of the chosen layers."""
        for place, layer in enumerate(linears(model, self.only).values()):
            new = Codebook(
                layer, length=self.length, num_codes=self.num_codes, seed=self.start + place
            )
            replace_(model, layer, new)
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its codebooks."""
        return model
