"""The order in which gates close, from what the loss has said about them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.gates import graded_
from sparsegate.sharded import local, whole


@torch.no_grad()
def place_(gates: Sequence[Tensor], heard: Sequence[Tensor]) -> None:
    """Sets every gate by the squares of the loss's pushes on it: one for the largest, less for all others, all open.

    A push is a gradient times a weight, so its square is the diagonal of Fisher's information times the square of the
    weight: what the loss would rise by without that weight, up to a factor (LeCun, Denker and Solla, 1990; Theis et
    al., 2018). Unlike the size of a weight it can be compared between layers, and it sees which inputs are silent.
    """
    largest = torch.stack([whole(squares.amax()) for squares in heard]).amax()
    for gate, squares in zip(gates, heard, strict=True):
        local(gate).copy_(graded_(local(squares).div(largest)))
