"""Product quantization: Gong et al., Compressing Deep Networks by Vector Quantization, 2014."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate_lab.layers import Codebook, check_codebook, linears, replace_, stand_ins
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class ProductQuantised(Method):
    """Trains densely, then builds the rows of chosen layers from small codebooks."""

    # Differs from Gong et al. 2014: 1. the codebooks may be trained further.

    length: int = 8
    """Number of consecutive weights of a row that share a code."""

    num_codes: int = 16
    """Number of vectors in a codebook, at most 256; each block of columns has a codebook."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are quantized."""

    at: float = 1.0
    """Fraction of training before layers are quantized; 1, as in the paper, trains no further."""

    start: int = 0
    """Seed of the k-means that finds the codebooks."""

    def __post_init__(self) -> None:
        if not 0 <= self.at <= 1:
            raise ValueError(f"at is a fraction of training in [0, 1], got {self.at}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Checks the layers; a resumed run gets codebooks if it had them."""
        for layer in linears(model, self.only).values():
            check_codebook((layer.out_features, layer.in_features), self.length, self.num_codes)
        self._quantize_(model, progress)
        return model

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Quantizes the chosen layers when it is time."""
        self._quantize_(model, progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its codebooks."""
        return model

    def _quantize_(self, model: nn.Module, progress: float) -> None:
        if progress < self.at or stand_ins(model):
            return
        for index, layer in enumerate(linears(model, self.only).values()):
            seed = self.start + index
            new = Codebook(layer, length=self.length, num_codes=self.num_codes, seed=seed)
            replace_(model, layer, new)
