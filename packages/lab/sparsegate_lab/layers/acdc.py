"""A cascade of A C D C^-1, which replaces a fully connected layer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .cosine import Cosine
from .stand_in import StandIn

SPREAD = 0.061**0.5  # diagonals start at one with this deviation: N(1, 0.061) in the paper


class AcdcLayer(StandIn):
    """A cascade of diagonals A and D around cosine transforms C, with rectifiers between.

    >>> AcdcLayer(nn.Linear(800, 500), depth=12).num_values  # 12 * (A, D and D's bias) of 800
    28800

    Inputs are padded with zeros to the width; superfluous outputs are cut off.
    """

    # Differs from Moczulski et al. 2015: 1. no dropout between the last steps. 2. no factor of 0.1
    # on the inputs, which are small already. 3. other widths than the inputs' are padded; the paper
    # chose its network to fit.

    def __init__(
        self, layer: nn.Linear, *, depth: int = 12, width: int | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        self.width = max(self.stands_for) if width is None else width
        if depth < 1:
            raise ValueError(f"depth is at least 1, got {depth}")
        if self.width < max(self.stands_for):
            raise ValueError(
                f"width is at least {max(self.stands_for)}, the layer's larger side, "
                f"got {self.width}"
            )
        self.cosine = Cosine(self.width)
        self.a = nn.Parameter(1 + SPREAD * torch.randn(depth, self.width))
        self.d = nn.Parameter(1 + SPREAD * torch.randn(depth, self.width))
        self.d_bias = nn.Parameter(torch.zeros(depth, self.width))
        self.bias = None  # the last of D's biases does its work
        draw = torch.Generator().manual_seed(seed)
        orders = torch.stack([torch.randperm(self.width, generator=draw) for _ in range(depth)])
        self.register_buffer("orders", orders, persistent=False)
        self.to(layer.weight.device)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the last step, before the model's own non-linearity."""
        hidden = F.pad(x.float(), (0, self.width - x.shape[-1]))
        steps = zip(self.a, self.d, self.d_bias, self.get_buffer("orders"), strict=True)
        for place, (a, d, bias, order) in enumerate(steps):
            if place:
                hidden = F.relu(hidden).index_select(-1, order)
            hidden = self.cosine.inverse(torch.addcmul(bias, self.cosine(hidden * a), d))
        return hidden[..., : self.stands_for[0]]
