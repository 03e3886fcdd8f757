"""Which way a step goes: through the kernels on a GPU, through plain torch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.price import Slope
from sparsegate.triton_call import Launch

from .move import Moved, Pace, move

BLOCK = 1024
RATES = 5  # of a pace, which all weights of a launch share
HAS_TRITON = find_spec("triton") is not None
MODULE = "sparsegate.fused.kernels"
TOGETHER = (
    16  # weights of one launch: AlexNet's 8 and VGG-16's 16 take one; the kernel grows with it
)


class Row(NamedTuple):
    """What moves together, and the gradient that moves it."""

    parts: Moved
    grad: Float[Tensor, "*shape"]


def move_all(rows: Sequence[Row], paces: Sequence[Pace]) -> None:
    """Moves weights and their gates the fastest way that there is for them; the paces' seeds follow each other."""
    suited = [_suited(*row) for row in rows]
    fast = [row for row in suited if row is not None]
    is_one = (
        len({row.parts.gate.dtype for row in fast}) == 1 == len({pace[:RATES] for pace in paces})
    )
    if len(fast) == len(rows) and is_one:
        for first in range(0, len(fast), TOGETHER):
            move_in_one_pass(fast[first : first + TOGETHER], paces[first : first + TOGETHER])
        return
    for row, ready, pace in zip(rows, suited, paces, strict=True):
        if ready is None:
            move(*row, pace)
        else:
            move_in_one_pass([ready], [pace])


def _suited(parts: Moved, grad: Float[Tensor, "*shape"]) -> Row | None:
    """The row as the kernel takes it, or nothing if it cannot."""
    if not can_go_fast(
        *parts, grad
    ):  # looked at once in the usual case: at every step, for every weight
        grad = in_layout_of(parts.weight, grad)
        if not can_go_fast(*parts, grad):
            return None
    return Row(parts, grad)


def can_go_fast(first: Tensor, *others: Tensor) -> bool:
    """Whether the kernels can take these tensors."""
    if not (HAS_TRITON and first.is_cuda) or torch.compiler.is_compiling():
        return False
    aligned = all(tensor.data_ptr() % 16 == 0 for tensor in (first, *others))
    return aligned and first.device.index == torch.cuda.current_device() and alike(first, *others)


def move_in_one_pass(rows: Sequence[Row], paces: Sequence[Pace]) -> None:
    """Moves weights and gates by one launch; all tensors of a row lie in memory alike and without gaps."""
    sizes = sizes_of(rows)
    if not any(sizes):
        return
    bases, tilts = zip(*(pace.slope for pace in paces), strict=True)
    columns = zip(*((*parts, grad) for parts, grad in rows), strict=True)
    *rates, _, seed = paces[0]
    launch_of(rows)(*columns, sizes, bases, tilts, *rates, seed % 2**31)


def launch_of(rows: Sequence[Row]) -> Launch:
    """The launch for weights of these sizes and types."""
    kinds = (each.dtype for parts, grad in rows for each in (*parts, grad))
    gate = rows[0].parts.gate
    return _launch("move_kernel", sizes_of(rows), gate.dtype == torch.float16, gate.device, *kinds)


def sizes_of(rows: Sequence[Row]) -> tuple[int, ...]:
    """How many numbers each weight has."""
    return tuple(row.grad.numel() for row in rows)


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
        launch = _launch("move_gates_kernel", (size,), grad is not None, gate.device, *kinds)
        launch(gate, speed, gate if grad is None else grad, size, lr, momentum, *slope)


@cache
def _launch(kernel: str, sizes: tuple[int, ...], flag: bool, *kinds: object) -> Launch:  # noqa: ARG001 kinds are part of the key
    """One launch for all tensors of these sizes and types."""
    return Launch(
        MODULE,
        kernel,
        (sum(-(-size // BLOCK) for size in sizes), 1),
        {"FLAG": flag, "BLOCK": BLOCK},
    )


def in_layout_of(
    weight: Float[Tensor, "*shape"], grad: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """The gradient, copied if it lies in memory in another order than the weight."""
    return (
        grad if alike(weight, grad) or not alike(weight) else torch.empty_like(weight).copy_(grad)
    )


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
    return [
        (stride, size)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size != 1
    ]
