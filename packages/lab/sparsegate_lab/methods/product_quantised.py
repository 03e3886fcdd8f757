"""Product quantization: Gong et al., Compressing Deep Networks by Vector Quantization, 2014."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate_lab.layers import StandIn, linears, replace_, stand_ins
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


class Codebook(StandIn):
    """Product quantization: every block of a row is one of the few vectors of its codebook.

    >>> layer = Codebook(nn.Linear(800, 500), length=8, num_codes=16)
    >>> layer.num_values  # 100 blocks, 16 vectors of 8
    12800
    >>> layer.num_indices  # 500 rows, 100 blocks, 4 bits each, as 32-bit numbers
    6250

    The vectors can be trained, the codes are fixed. Codes are stored as bytes and counted as the
    bits that they need.
    """

    codes: Tensor

    def __init__(self, layer: nn.Linear, *, length: int, num_codes: int, seed: int = 0) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        check_codebook(self.stands_for, length, num_codes)
        draw = torch.Generator().manual_seed(seed)
        blocks = layer.weight.detach().unflatten(1, (-1, length)).unbind(1)  # type: ignore[no-untyped-call]
        books, codes = zip(*(kmeans(block, num_codes, draw) for block in blocks), strict=True)
        self.books = nn.Parameter(torch.cat(books))
        self.register_buffer("codes", torch.stack(codes, dim=1).to(torch.uint8))
        self.num_codes = num_codes
        self.bias = layer.bias

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the layer."""
        begins = self.num_codes * torch.arange(self.codes.shape[1], device=self.codes.device)
        weight = F.embedding(self.codes.long() + begins, self.books).flatten(1)
        return F.linear(x, weight, self.bias)

    @property
    def num_indices(self) -> int:
        """The codes, as 32-bit numbers."""
        bits = (self.num_codes - 1).bit_length()
        return -(-self.codes.numel() * bits // 32)


def check_codebook(shape: tuple[int, int], length: int, num_codes: int) -> None:
    """Raises if the block length or the number of codes does not fit a weight of this shape."""
    rows, columns = shape
    if length < 1 or columns % length:
        raise ValueError(f"length must divide the {columns} inputs of the layer, got {length}")
    if not 2 <= num_codes <= min(256, rows):
        raise ValueError(
            f"num_codes is from 2 to {min(256, rows)}, at most one for each row, got {num_codes}"
        )


ROUNDS = 25


def kmeans(
    points: Float[Tensor, "points size"], num: int, draw: torch.Generator
) -> tuple[Float[Tensor, "centres size"], Int64[Tensor, " points"]]:
    """Finds `num` centres, starting from random points, and the nearest centre of every point.

    >>> draw = torch.Generator().manual_seed(0)
    >>> centres, nearest = kmeans(torch.tensor([[1.0], [3.0], [10.0]]), 2, draw)
    >>> centres[nearest].flatten().tolist()
    [2.0, 2.0, 10.0]
    """
    first = torch.randperm(len(points), generator=draw)[:num]
    centres = points[first.to(points.device)].clone()
    for _ in range(ROUNDS):
        nearest = torch.cdist(points, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        counts = torch.bincount(nearest, minlength=num)[:, None]
        # A centre without points does not move.
        centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
    return centres, torch.cdist(points, centres).argmin(dim=1)
