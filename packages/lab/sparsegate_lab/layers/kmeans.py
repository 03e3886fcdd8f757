"""Lloyd's k-means on a few vectors."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

ROUNDS = 25


def kmeans(
    points: Float[Tensor, "points size"], num: int, draw: torch.Generator
) -> tuple[Float[Tensor, "centres size"], Int64[Tensor, " points"]]:
    """Finds `num` centres, starting from random points, and the nearest centre of every point.

    >>> draw = torch.Generator().manual_seed(0)
    >>> centres, nearest = kmeans(torch.tensor([[1.0], [3.0], [10.0]]), 2, draw)
    >>> centres[nearest].flatten().tolist()
    [2.0, 2.0, 10.0]
    """
    first = torch.randperm(len(points), generator=draw)[:num]
    centres = points[first.to(points.device)].clone()
    for _ in range(ROUNDS):
        nearest = torch.cdist(points, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        counts = torch.bincount(nearest, minlength=num)[:, None]
        # A centre without points does not move.
        centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
    return centres, torch.cdist(points, centres).argmin(dim=1)
