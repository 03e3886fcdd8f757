"""A fully connected layer as the product of two thin matrices."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .stand_in import StandIn


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
