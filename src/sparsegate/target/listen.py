"""The order in which gates close, from what the loss has said about them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.gates import LOWEST, SLOPE, tail_sums
from sparsegate.sharded import local, sum_of_parts


@torch.no_grad()
def place_(gates: Sequence[Tensor], heard: Sequence[Tensor]) -> None:
    """Sets every gate by the squares of the loss's pushes on it: one for the largest of a layer, less for all others.

    A push is a gradient times a weight, so its square is the diagonal of Fisher's information times the square of the
    weight: what the loss would rise by without that weight, up to a factor (LeCun, Denker and Solla, 1990; Theis et
    al., 2018). What counts is the share that a square has in the sum of all squares of its layer that are no smaller,
    as Graded takes it of the weights themselves: without that, large layers lose nearly everything, since what each of
    many small weights does is little, and what they do together is much.
    """
    for gate, squares in zip(gates, heard, strict=True):
        here = local(squares)
        sums, bins = tail_sums(here, total=lambda found, of=squares: sum_of_parts(found, of))
        placed = here.div(sums[bins]).log10_().mul_(SLOPE).add_(1)
        local(gate).copy_(placed.nan_to_num_(nan=LOWEST).clamp_(LOWEST, 1.0))
