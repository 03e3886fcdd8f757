"""Which way a step goes: through the kernel on a GPU, through plain torch elsewhere."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor

from .move import Moved, Pace, move

BLOCK = 1024
HAS_TRITON = find_spec("triton") is not None


def move_fast(parts: Moved, grad: Float[Tensor, "*shape"], pace: Pace) -> None:
    """Moves a weight and its gates the fastest way that there is for them."""
    grad = in_layout_of(parts.weight, grad)
    if HAS_TRITON and parts.weight.is_cuda and alike(*parts, grad):
        with torch.cuda.device(parts.weight.device):
            move_in_one_pass(parts, grad, pace)
    else:
        move(parts, grad, pace)


def move_in_one_pass(parts: Moved, grad: Float[Tensor, "*shape"], pace: Pace) -> None:
    """Runs the kernel; all tensors lie in memory alike and without gaps."""
    size = parts.weight.numel()
    kernel = import_module(".kernels", __package__).move_kernel
    numbers = (pace.lr, pace.momentum, pace.weight_decay, pace.gate_lr, pace.gate_momentum, *pace.slope)
    grid = (-(-size // BLOCK),)
    if size:
        kernel[grid](*parts, grad, size, *numbers, pace.seed, ROUND=parts.gate.dtype == torch.float16, BLOCK=BLOCK)


def in_layout_of(weight: Float[Tensor, "*shape"], grad: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The gradient, copied if it lies in memory in another order than the weight."""
    return grad if alike(weight, grad) or not alike(weight) else torch.empty_like(weight).copy_(grad)


def alike(first: Tensor, *others: Tensor) -> bool:
    """Whether tensors lie in memory in the same order, without gaps."""
    order = sorted((stride, size) for size, stride in zip(first.shape, first.stride(), strict=True) if size != 1)
    wanted = 1
    for stride, size in order:
        if stride != wanted:
            return False
        wanted *= size
    return all(_strides(other) == _strides(first) for other in others)


def _strides(tensor: Tensor) -> list[int]:
    """Strides of the dimensions that have any: those of size one may be anything."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
