"""Which way a step goes: through the kernels on a GPU, through plain torch elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.kernels import Launch
from sparsegate.penalty import Slope

from .move import Moved, Pace, move

BLOCK = 1024
HAS_TRITON = find_spec("triton") is not None
MODULE = "sparsegate.fused.kernels"


def move_fast(parts: Moved, grad: Float[Tensor, "*shape"], pace: Pace) -> None:
    """Moves a weight and its gates the fastest way that there is for them."""
    if not can_go_fast(*parts, grad):  # looked at once in the usual case: at every step, for every weight
        grad = in_layout_of(parts.weight, grad)
        if not can_go_fast(*parts, grad):
            return move(parts, grad, pace)
    return move_in_one_pass(parts, grad, pace)


def can_go_fast(first: Tensor, *others: Tensor) -> bool:
    """Whether the kernels can take these tensors."""
    if not (HAS_TRITON and first.is_cuda) or torch.compiler.is_compiling():
        return False
    aligned = all(tensor.data_ptr() % 16 == 0 for tensor in (first, *others))
    return aligned and first.device.index == torch.cuda.current_device() and alike(first, *others)


def move_in_one_pass(parts: Moved, grad: Float[Tensor, "*shape"], pace: Pace) -> None:
    """Moves weights and gates by the kernel; all tensors lie in memory alike and without gaps."""
    weight, speed, gate, gate_speed = parts
    lr, momentum, decay, gate_lr, gate_momentum, (base, tilt), seed = pace
    if size := weight.numel():
        kinds = (weight.dtype, speed.dtype, gate.dtype, gate_speed.dtype, grad.dtype)
        launch = _launch("move_kernel", size, gate.dtype == torch.float16, weight.device, *kinds)
        numbers = (lr, momentum, decay, gate_lr, gate_momentum, base, tilt, seed % 2**31)
        launch(weight, speed, gate, gate_speed, grad, size, *numbers)


def move_gates_in_one_pass(
    gate: Float[Tensor, "*shape"],
    speed: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"] | None,
    lr: float,
    momentum: float,
    slope: Slope,
) -> None:
    """Moves gates that have a gradient of their own, or none, as GateSGD does."""
    size = gate.numel()
    if size:
        kinds = (gate.dtype, speed.dtype, None if grad is None else grad.dtype)
        launch = _launch("move_gates_kernel", size, grad is not None, gate.device, *kinds)
        launch(gate, speed, gate if grad is None else grad, size, lr, momentum, *slope)


@cache
def _launch(kernel: str, size: int, flag: bool, *kinds: object) -> Launch:  # noqa: ARG001 kinds are part of the key
    """One launch for all tensors of this size and these types."""
    return Launch(MODULE, kernel, (-(-size // BLOCK), 1), {"FLAG": flag, "BLOCK": BLOCK})


def in_layout_of(weight: Float[Tensor, "*shape"], grad: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The gradient, copied if it lies in memory in another order than the weight."""
    return grad if alike(weight, grad) or not alike(weight) else torch.empty_like(weight).copy_(grad)


def alike(first: Tensor, *others: Tensor) -> bool:
    """Whether tensors lie in memory in the same order, without gaps."""
    if first.is_contiguous():
        return all(other.is_contiguous() for other in others)
    if first.is_contiguous(memory_format=torch.channels_last) and _same_strides(first, others):
        return True  # at every step, so the usual case must not take long
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
    """Strides and sizes of the dimensions that have any: the strides of those of size one may be anything."""
    return [(stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
