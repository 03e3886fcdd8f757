"""The gates of one weight, a parametrization that multiplies the weight by its mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ReferenceType

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sparsegate.sharded import whole

from .draw import OPEN_ABOVE, Draw
from .guard import Mover, watch

ROUNDING = 2e-3
"""How much a sum of gates may change, relatively, by storing them in 16 bits."""


class Gate(nn.Module):
    """Holds a weight's gates and turns the weight into the masked weight.

    In training the mask is drawn; in eval it is the threshold's, whatever the draw.
    """

    def __init__(self, gate: Float[Tensor, "*shape"], draw: Draw, *, casts: bool = False) -> None:
        super().__init__()
        self.gate = nn.Parameter(gate)
        self.draw = draw
        self.casts = casts
        """Whether autocast casts this weight; then the masked weight is written in its type."""
        self.awaited = ""
        """The target that training has yet to end on, such as `keep=0.1 at step 800 of 1,000`."""
        self.loaded = False
        """Whether a state dict has been loaded."""
        self.moved = False
        """Whether an optimizer has moved the gates in this process."""
        self.first_sum = None if gate.is_meta else float(gate.sum(dtype=torch.float64))
        """The sum of the first values."""
        self.whole = False
        """Whether the weight gets the unmasked gradient of the masked weight, and the gate none.

        For `GatedSGD`, which computes both gradients from it.
        """
        self.mover: ReferenceType[Mover] | None = None
        """Who moved the gates last."""
        watch(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.mover = None
        watch(self)

    def mask(self) -> Bool[Tensor, "*shape"]:
        """Returns the binary mask: drawn in training, thresholded in eval."""
        return self._score() > OPEN_ABOVE

    def is_loaded(self) -> bool:
        """Whether other gates than the first were loaded, and no optimizer has moved them since."""
        return not self.moved and self.loaded and self.differs_from_start()

    def differs_from_start(self) -> bool:
        """Whether the gates have another sum than at first; False if that is unknown."""
        if self.first_sum is None:
            return False
        now = float(whole(self.gate.detach().sum(dtype=torch.float64)))
        return abs(now - self.first_sum) > ROUNDING * max(1.0, abs(self.first_sum))

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.loaded = True

    def forward(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns the weight where its mask is true, exactly zero elsewhere."""
        return masked(weight, self.gate, self._score(), dtype=self._dtype(weight), whole=self.whole)

    def right_inverse(self, weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns what `module.weight = weight` stores: the weight itself."""
        return weight

    def extra_repr(self) -> str:
        """Draw and shape, for `print(model)`."""
        return f"{self.draw}, shape={tuple(self.gate.shape)}"

    def _score(self) -> Float[Tensor, "*shape"]:
        return self.draw.score(self.gate.detach()) if self.training else self.gate.detach()

    def _dtype(self, weight: Tensor) -> torch.dtype:
        kind = weight.device.type
        if self.casts and weight.dtype == torch.float32 and torch.is_autocast_enabled(kind):
            return torch.get_autocast_dtype(kind)
        return weight.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Gate:
        # model.half() and model.bfloat16() must not round the gates: their steps are smaller than
        # the spacing of 16-bit numbers near 1. Moves to a device or memory format pass.
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self


def masked(
    weight: Float[Tensor, "*shape"],
    gate: Float[Tensor, "*shape"],
    score: Float[Tensor, "*shape"],
    *,
    dtype: torch.dtype | None = None,
    whole: bool = False,
) -> Float[Tensor, "*shape"]:
    """The weight where the score is above 0.5, else +0.0, with a straight-through gradient.

    `d loss / d gate` is `d loss / d masked * weight`, also for closed gates, so that they can open
    again. The result has the weight's type unless another is given. If `whole`, the weight gets
    `d loss / d masked` unmasked.
    """
    # What apply does for torch.func, such as looking up a signature, costs more than masking a
    # small layer.
    plain = not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())
    apply: Any = _apply_plainly if plain else _StraightThrough.apply
    out: Tensor = apply(weight, gate, score, dtype or weight.dtype, whole)
    return out


class _StraightThrough(torch.autograd.Function):
    # Selection instead of a product: removed weights are +0.0 (never -0.0), and an infinite weight
    # with a closed gate does no harm. Under Threshold the score is the gate, so no mask is stored.
    generate_vmap_rule = True

    @staticmethod
    def forward(
        weight: Tensor, gate: Tensor, score: Tensor, dtype: torch.dtype, whole: bool
    ) -> Tensor:
        return where_open(score, weight, dtype)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, torch.dtype, bool], output: Tensor
    ) -> None:
        weight, gate, score, _, ctx.whole = inputs
        ctx.dtype, ctx.gate_dtype = weight.dtype, gate.dtype
        if not ctx.whole:
            ctx.save_for_backward(weight, score)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        if ctx.whole:
            return grad.to(ctx.dtype), None, None, None, None
        weight, score = ctx.saved_tensors
        to_weight = where_open(score, grad, ctx.dtype) if ctx.needs_input_grad[0] else None
        # In the gate's type: the product of two small 16-bit numbers would be zero.
        to_gate = (
            grad.to(ctx.gate_dtype) * weight.to(ctx.gate_dtype) if ctx.needs_input_grad[1] else None
        )
        return to_weight, to_gate, None, None, None


_apply_plainly = super(torch.autograd.Function, _StraightThrough).apply


def where_open(score: Tensor, value: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The value where the score is above 0.5, else +0.0, in `dtype` or else the value's type."""
    dtype = dtype or value.dtype
    # torch.where(score > 0.5, value, 0) branches, which takes 18 times as long on a CPU.
    if (
        dtype == value.dtype
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
    ):
        chosen: Tensor = torch.ops.aten.threshold_backward(value, score, OPEN_ABOVE).to(dtype)
    else:  # one pass: nothing is written in the wider type first
        chosen = torch.empty_like(value, dtype=dtype)
        torch.ops.aten.threshold_backward.grad_input(value, score, OPEN_ABOVE, grad_input=chosen)
    return _with_strides_of(value, chosen)


def _with_strides_of(value: Tensor, chosen: Tensor) -> Tensor:
    # Operations of torch forget the strides of dimensions of size one, by which a convolution
    # recognizes channels-last: after a first layer with one input channel, the whole network would
    # run in the slow layout.
    alike = all(
        size == 1 or one == two
        for size, one, two in zip(value.shape, value.stride(), chosen.stride(), strict=True)
    )
    return (
        chosen.as_strided(value.shape, value.stride())
        if alike and chosen.stride() != value.stride()
        else chosen
    )
