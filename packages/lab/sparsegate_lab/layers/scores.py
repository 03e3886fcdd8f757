"""Scores of a layer's weights, by which the weights of different layers are ranked together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Scores = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]


def magnitudes(weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Absolute values: one threshold for the whole network."""
    return weight.detach().abs()


def ranks(weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The fraction of the layer's weights that are smaller: each layer keeps the same fraction.

    >>> ranks(torch.tensor([0.1, -3.0, 2.0, 0.0]))
    tensor([0.2500, 0.7500, 0.5000, 0.0000])
    """
    sizes = weight.detach().abs().flatten()
    found = torch.empty_like(sizes)
    found[sizes.argsort(stable=True)] = torch.arange(len(sizes), device=sizes.device).to(sizes)
    return (found / max(1, len(sizes))).view(weight.shape)


def lamp(weight: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A weight's square over the sum of all squares in its layer that are no smaller.

    Lee et al., Layer-adaptive sparsity for the magnitude-based pruning, 2021. The largest weight of
    every layer scores one, so no layer is lost. Of equal weights the earlier scores higher.

    >>> lamp(torch.tensor([1.0, -2.0, 0.0]))
    tensor([0.2000, 1.0000, 0.0000])
    """
    squares = weight.detach().flatten().float().square()
    order = squares.argsort(descending=True, stable=True)
    falling = squares[order]
    found = torch.empty_like(squares)
    found[order] = falling / falling.double().cumsum(0).clamp_min(1e-300).float().clamp_min(1e-38)
    return found.view(weight.shape)


SCORES: dict[str, Scores] = {"network": magnitudes, "layer": ranks, "lamp": lamp}
"""Ways to rank all weights of a network, by name."""
