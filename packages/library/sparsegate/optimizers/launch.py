"""Chooses how a step is computed: by Triton kernels on a GPU, by plain torch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.price import Slope
from sparsegate.triton_call import Launch

from .step import GatedWeight, Rates, step_gate_, step_gated_

BLOCK = 1024
SHARED = 5  # the first fields of Rates, which all weights of a launch have in common
HAS_TRITON = find_spec("triton") is not None
MODULE = "sparsegate.optimizers.kernels"
TOGETHER = (
    16  # weights per launch: enough for AlexNet's 8 and VGG-16's 16; the kernel grows with it
)
Shift = Float[Tensor, ""] | None


class Update(NamedTuple):
    """The tensors of one gated weight and the gradient of the masked weight."""

    parts: GatedWeight
    grad: Float[Tensor, "*shape"]


def step_all(updates: Sequence[Update], rates: Sequence[Rates], shift: Shift = None) -> None:
    """Moves weights and their gates, in one launch where the kernel can take all of them."""
    suited = [_suited(*update) for update in updates]
    fast = [update for update in suited if update is not None]
    one_dtype = len({update.parts.gate.dtype for update in fast}) == 1
    if len(fast) == len(updates) and one_dtype and len({each[:SHARED] for each in rates}) == 1:
        for first in range(0, len(fast), TOGETHER):
            last = first + TOGETHER
            step_in_one_pass(fast[first:last], rates[first:last], shift)
        return
    for update, ready, own in zip(updates, suited, rates, strict=True):
        if ready is None:
            step_gated_(*update, own, shift)
        else:
            step_in_one_pass([ready], [own], shift)


def step_gates(
    gate: Float[Tensor, "*shape"],
    velocity: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"] | None,
    lr: float,
    momentum: float,
    slope: Slope,
    shift: Shift = None,
) -> None:
    """Moves gates that have a gradient, or none, as `GateSGD` does."""
    if can_launch(gate, velocity, gate if grad is None else grad):
        step_gates_in_one_pass(gate, velocity, grad, lr, momentum, slope, shift)
    else:
        step_gate_(
            gate,
            velocity,
            grad,
            lr=lr,
            momentum=momentum,
            base=slope.base,
            tilt=slope.tilt,
            shift=shift,
        )


def can_launch(first: Tensor, *others: Tensor) -> bool:
    """Whether the kernels can take these tensors."""
    if not (HAS_TRITON and first.is_cuda) or torch.compiler.is_compiling():
        return False
    aligned = all(tensor.data_ptr() % 16 == 0 for tensor in (first, *others))
    return aligned and first.device.index == torch.cuda.current_device() and alike(first, *others)


def step_in_one_pass(
    updates: Sequence[Update], rates: Sequence[Rates], shift: Shift = None
) -> None:
    """Moves weights and gates by one launch; the tensors of one update have the same layout."""
    sizes = sizes_of(updates)
    if not any(sizes):
        return
    bases, tilts = zip(*(each.slope for each in rates), strict=True)
    columns = zip(*((*parts, grad) for parts, grad in updates), strict=True)
    lowered = updates[0].grad if shift is None else shift  # not read if there is no shift
    shared, seed = rates[0][:SHARED], rates[0].seed % 2**31
    launch = launch_of(updates, shifted=shift is not None)
    launch(*columns, lowered, sizes, bases, tilts, *shared, seed)


def launch_of(updates: Sequence[Update], *, shifted: bool) -> Launch:
    """The launch for weights of these sizes and types."""
    types = (tensor.dtype for parts, grad in updates for tensor in (*parts, grad))
    gate = updates[0].parts.gate
    half = gate.dtype == torch.float16
    flags = (("SHIFTED", shifted), ("HALF", half))
    return _launch("step_kernel", sizes_of(updates), flags, gate.device, *types)


def sizes_of(updates: Sequence[Update]) -> tuple[int, ...]:
    """The number of elements of each weight."""
    return tuple(update.grad.numel() for update in updates)


def step_gates_in_one_pass(
    gate: Float[Tensor, "*shape"],
    velocity: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"] | None,
    lr: float,
    momentum: float,
    slope: Slope,
    shift: Shift = None,
) -> None:
    """Moves gates by one launch; the tensors have the same layout."""
    size = gate.numel()
    if size:
        types = (gate.dtype, velocity.dtype, None if grad is None else grad.dtype)
        flags = (("SHIFTED", shift is not None), ("HAS_GRAD", grad is not None))
        launch = _launch("step_gates_kernel", (size,), flags, gate.device, *types)
        given, lowered = gate if grad is None else grad, gate if shift is None else shift
        launch(gate, velocity, given, lowered, size, lr, momentum, *slope)


@cache
def _launch(
    kernel: str,
    sizes: tuple[int, ...],
    flags: tuple[tuple[str, bool], ...],
    *types: Any,  # noqa: ARG001 part of the cache's key
) -> Launch:
    """One launch for all tensors of these sizes and types."""
    grid = (sum(-(-size // BLOCK) for size in sizes), 1)
    return Launch(MODULE, kernel, grid, {**dict(flags), "BLOCK": BLOCK})


def _suited(parts: GatedWeight, grad: Float[Tensor, "*shape"]) -> Update | None:
    """The update as the kernel takes it; None if it cannot."""
    # The usual case needs one check only: this runs at every step, for every weight.
    if not can_launch(*parts, grad):
        grad = in_layout_of(parts.weight, grad)
        if not can_launch(*parts, grad):
            return None
    return Update(parts, grad)


def in_layout_of(
    weight: Float[Tensor, "*shape"], grad: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """The gradient in the weight's memory layout, copied if it has another one."""
    if alike(weight, grad) or not alike(weight):
        return grad
    return torch.empty_like(weight).copy_(grad)


def alike(first: Tensor, *others: Tensor) -> bool:
    """Whether tensors have the same memory layout, without gaps."""
    if first.is_contiguous():
        return all(other.is_contiguous() for other in others)
    if first.is_contiguous(memory_format=torch.channels_last) and _same_strides(first, others):
        return True  # the usual case: this runs at every step
    wanted = 1
    for stride, size in sorted((stride, size) for stride, size in _strides(first)):
        if stride != wanted:
            return False
        wanted *= size
    return all(_strides(other) == _strides(first) for other in others)


def _same_strides(first: Tensor, others: tuple[Tensor, ...]) -> bool:
    wanted = first.stride()
    return all(other.stride() == wanted for other in others)


def _strides(tensor: Tensor) -> list[tuple[int, int]]:
    """Strides and sizes of dimensions larger than one; the stride of others may be anything."""
    return [
        (stride, size)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size != 1
    ]
