"""The gate on one weight, a parametrization that multiplies the weight by its mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .draw import OPEN_ABOVE, Draw


class Gate(nn.Module):
    """Holds a weight's gates and turns the weight into the masked weight.

    In training the mask is drawn; in eval it is the threshold's, whatever the draw.
    """

    def __init__(self, gate: Float[Tensor, "*shape"], draw: Draw) -> None:
        super().__init__()
        self.gate = nn.Parameter(gate)
        self.draw = draw

    def mask(self) -> Bool[Tensor, "*shape"]:
        """The binary mask of this moment: drawn in training, thresholded in eval."""
        return self.draw.mask(self.gate) if self.training else self.gate > OPEN_ABOVE

    def forward(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The weight where its mask is true, exactly zero elsewhere."""
        return masked(weight, self.gate, self.mask())

    def right_inverse(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What to store when someone assigns `module.weight = weight`: the weight as it is."""
        return weight

    def extra_repr(self) -> str:
        """Draw and shape, for `print(model)`."""
        return f"{self.draw}, shape={tuple(self.gate.shape)}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Gate:
        # model.half() and model.bfloat16() must not round the gates: their steps are smaller than
        # the spacing of 16-bit numbers near 1. Moves to a device or memory format pass.
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self


def masked(
    weight: Float[Tensor, "*shape"], gate: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """The weight where the mask is true, else +0.0, with the straight-through gradient to the gate.

    `d loss / d gate` is `d loss / d masked * weight`, for closed gates too, so that they can open again.
    """
    out: Tensor = _StraightThrough.apply(weight, gate, mask)  # type: ignore[no-untyped-call]
    return out


class _StraightThrough(torch.autograd.Function):
    # `where` instead of a product: removed weights are +0.0 (never -0.0), an infinite weight behind a
    # closed gate does no harm, and the mask is kept for the backward pass as one byte a weight.
    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask, weight, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        weight, gate, mask = inputs
        ctx.gate_dtype = gate.dtype
        ctx.save_for_backward(weight, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (weight, mask) = grads, ctx.saved_tensors
        to_weight = torch.where(mask, grad, 0.0) if ctx.needs_input_grad[0] else None
        # In the gate's type: the product of two small 16-bit numbers would be zero.
        to_gate = grad.to(ctx.gate_dtype) * weight.to(ctx.gate_dtype) if ctx.needs_input_grad[1] else None
        return to_weight, to_gate, None
