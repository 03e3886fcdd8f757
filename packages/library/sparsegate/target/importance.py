"""Orders gates by what the loss would rise by without their weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.gates import Gate, graded_
from sparsegate.price import Moment
from sparsegate.sharded import local, whole

SQUARES = "heard"  # in an optimizer's state: the mean squares of a gate's gradients


@torch.no_grad()
def hear_(gates: Sequence[Gate], moment: Moment, steps: float) -> None:
    """Updates the running sums of squared gradients, which forget after about `steps` steps."""
    kept = 1 - 1 / max(1.0, steps)
    for gate, grad, memory in zip(gates, moment.gradients(), moment.memory, strict=True):
        if SQUARES not in memory:
            memory[SQUARES] = torch.zeros_like(gate.gate, dtype=torch.float32)
        if grad is not None:
            squares, each = local(memory[SQUARES]), local(grad)
            squares.mul_(kept).addcmul_(each, each)


@torch.no_grad()
def by_importance(squares: Sequence[Tensor]) -> list[Tensor]:
    """Gates by mean squared gradients: one for the largest, lower for less; all are open.

    A gate's gradient is a weight's gradient times the weight. Its square is the diagonal of the
    Fisher information times the squared weight: up to a factor, what the loss would rise by
    without that weight (LeCun, Denker and Solla, 1990; Theis et al., 2018). Unlike magnitudes, it
    can be compared between layers, and it sees which inputs are always zero.
    """
    largest = torch.stack([whole(square.amax()) for square in squares]).amax()
    found = []
    for square in squares:
        order = torch.empty_like(square)
        local(order).copy_(graded_(local(square).div(largest)))
        found.append(order)
    return found
