"""A fully connected layer that replaces one of another size."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .stand_in import StandIn


class Resized(StandIn):
    """A fully connected layer that remembers the shape of the one that it replaces.

    >>> wider = Resized(nn.Linear(500, 10), by=nn.Linear(1024, 10))
    >>> wider.stands_for, wider.num_values
    ((10, 500), 10240)
    """

    def __init__(self, layer: nn.Linear, *, by: nn.Linear) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        self.weight, self.bias = by.weight, by.bias

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the layer."""
        return F.linear(x, self.weight, self.bias)
