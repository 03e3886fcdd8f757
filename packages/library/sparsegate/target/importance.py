"""Orders gates by what the loss would rise by without their weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.gates import graded_
from sparsegate.sharded import local, whole


@torch.no_grad()
def set_by_importance_(gates: Sequence[Tensor], squares: Sequence[Tensor]) -> None:
    """Sets gates by sums of squared gradients, in place: one for the largest; all stay open.

    A gate's gradient is a weight's gradient times the weight. Its square is the diagonal of the
    Fisher information times the squared weight: up to a factor, what the loss would rise by
    without that weight (LeCun, Denker and Solla, 1990; Theis et al., 2018). Unlike magnitudes, it
    can be compared between layers, and it sees which inputs are always zero.
    """
    largest = torch.stack([whole(square.amax()) for square in squares]).amax()
    for gate, square in zip(gates, squares, strict=True):
        local(gate).copy_(graded_(local(square).div(largest)))
