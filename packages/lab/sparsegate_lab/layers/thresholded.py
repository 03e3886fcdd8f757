"""CONTRACT Thresholded: a layer that uses only those of its weights that exceed a threshold."""

from __future__ import annotations

import abc
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .wrap import Layer, apply_layer


class Thresholded(nn.Module, abc.ABC):
    """A Linear or Conv whose weights keep their values where its forward pass uses zeros.

    Weights of all layers are compared by `sizes`, with one threshold. At 0 all of them are used.
    """

    threshold: Float[Tensor, ""]

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("threshold", torch.zeros(()))

    def sizes(self) -> Float[Tensor, "..."]:
        """What is compared with the threshold, for each weight."""
        return self.layer.weight.detach().abs()

    @abc.abstractmethod
    def used(self) -> Float[Tensor, "..."]:
        """The weight of the forward pass: exactly zero where `sizes` is not above the threshold."""

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output with the weight that is used."""
        return apply_layer(self.layer, features, self.used(), self.layer.bias)

    @torch.no_grad()
    def settled(self) -> Layer:
        """The layer alone, with the weight that is used."""
        self.layer.weight.copy_(self.used())
        return self.layer


def thresholded(model: nn.Module) -> list[Thresholded]:
    """The layers of a model that have a threshold."""
    return [module for module in model.modules() if isinstance(module, Thresholded)]


@torch.no_grad()
def set_thresholds_(model: nn.Module, keep: float) -> None:
    """Sets the common threshold so that this fraction of all weights is used, in place."""
    layers = thresholded(model)
    num_weights = sum(each.layer.weight.numel() for each in layers)
    count = max(1, round(keep * num_weights))
    lowest = torch.zeros_like(layers[0].threshold)
    if count < num_weights:
        sizes = torch.cat([each.sizes().flatten() for each in layers])
        lowest = sizes.kthvalue(num_weights - count).values
    for each in layers:
        each.threshold.copy_(lowest)


def straight_through(
    weight: Float[Tensor, "*shape"], used: Float[Tensor, "*shape"], *, to_unused: float = 1.0
) -> Float[Tensor, "*shape"]:
    """`used`, whose gradient goes to the weight: as it is where `used` is not zero.

    Args:
        weight: The weight.
        used: What the forward pass uses of it.
        to_unused: The factor on gradients where `used` is zero.
    """
    out: Tensor = _StraightThrough.apply(weight, used.detach(), to_unused)  # type: ignore[no-untyped-call]
    return out


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(weight: Tensor, used: Tensor, to_unused: float) -> Tensor:
        return used.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        _, used, ctx.to_unused = inputs
        ctx.save_for_backward(used)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        if ctx.to_unused == 1:
            return grad, None, None
        (used,) = ctx.saved_tensors
        return torch.where(used == 0, grad * ctx.to_unused, grad), None, None
