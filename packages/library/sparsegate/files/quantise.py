"""Quantizes kept weights to a few values, found by clustering. Zeros stay zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate.gates import check_finished
from sparsegate_runtime.files import Array

ROUNDS = 50


def quantise_(
    tensors: nn.Module | Iterable[Tensor],
    *,
    bits: int,
    per: Literal["layer", "network"] = "network",
) -> None:
    """Quantizes the kept weights to at most 2^bits different values, in place.

    >>> layer = nn.Linear(50, 50)
    >>> quantise_(layer, bits=3)
    >>> len(layer.weight.unique()), len(layer.bias.unique())
    (8, 8)

    Args:
        tensors: A model without gates, or tensors.
        bits: 2 to 8. Zero is not counted as a value.
        per: Whether all matrices of the network share their values, or each layer has its own. All
            vectors (biases and norms) share another set of values in both cases.

    Values are rounded to bfloat16, so that a file stores each in two bytes.

    """
    if not 2 <= bits <= 8:
        raise ValueError(f"bits must be from 2 to 8, got {bits}")
    if per not in ("layer", "network"):
        raise ValueError(f"per must be 'layer' or 'network', got {per!r}")
    if isinstance(tensors, nn.Module):
        check_finished(tensors)
    given = tensors.parameters() if isinstance(tensors, nn.Module) else tensors
    real = [tensor.detach() for tensor in given if tensor.is_floating_point()]
    matrices = [tensor for tensor in real if tensor.ndim >= 2]
    vectors = [tensor for tensor in real if tensor.ndim < 2]
    for group in (
        [*([tensor] for tensor in matrices), vectors] if per == "layer" else [matrices, vectors]
    ):
        _quantise_together_(group, 2**bits)


def clusters(values: Array, count: int) -> Array:
    """At most `count` centres of numbers, rising, found by k-means.

    >>> clusters(np.array([1.0, 1.2, 5.0, 5.2]), 2).tolist()
    [1.1, 5.1]
    """
    distinct = np.unique(values)
    if len(distinct) <= count:
        return distinct
    # Half of the centres by rank, half by value: ranks alone leave no centre for the few large
    # weights, which matter most.
    spread = np.linspace(distinct[0], distinct[-1], count - count // 2)
    ranks = np.quantile(values, (np.arange(count // 2) + 0.5) / (count // 2))
    centres = np.sort(np.concatenate([spread, ranks]))
    for _ in range(ROUNDS):
        nearest = np.searchsorted((centres[1:] + centres[:-1]) / 2, values)
        sizes = np.bincount(nearest, minlength=len(centres))
        sums = np.bincount(nearest, values, minlength=len(centres))
        moved = np.unique(sums[sizes > 0] / sizes[sizes > 0])
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _quantise_together_(parameters: Sequence[Tensor], count: int) -> None:
    kept = [parameter[parameter != 0] for parameter in parameters]
    values = torch.cat(kept).double().cpu().numpy() if kept else np.zeros(0)
    if len(values) == 0:
        return
    if not np.isfinite(values).all():
        raise ValueError(
            "weights to quantise must be finite, got NaN or infinity; the network has diverged"
        )
    centres = torch.unique(torch.from_numpy(clusters(values, count)).to(torch.bfloat16))
    centres = centres[centres != 0]  # a kept weight stays kept
    if len(centres) == 0:  # all are too small for bfloat16
        return
    middles = (centres[1:].double() + centres[:-1].double()) / 2
    for parameter, values_of_it in zip(parameters, kept, strict=True):
        nearest = torch.bucketize(values_of_it.double().cpu(), middles)
        parameter[parameter != 0] = centres[nearest].to(parameter)
