"""Finds the sizes of a model's inputs that a network file may leave open: batch and length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

BATCH, LENGTH = "batch", "length"
TWO, THREE = 2, 3
"""Batches that are captured: one of a single image may be captured as a fixed number."""


@dataclass(frozen=True)
class Axis:
    """A size of the inputs that may vary."""

    name: str
    where: tuple[tuple[int, int], ...]
    """Tensors by number, each with the dimension."""
    sizes: tuple[int, int, int]
    """Two that are captured, and one that is compared."""
    example: int


def axes_of(name: str, leaves: Sequence[Tensor]) -> Iterable[Axis]:
    """The dimensions that a size may stand for, the likeliest first."""
    first = leaves[0]
    if name == BATCH:
        if first.ndim and first.shape[0]:
            yield _axis(name, leaves, 0, (TWO, THREE, 5), lambda one: one.ndim > 0)
        return
    is_index = first.dtype == torch.int64
    dims = [1] if is_index and first.ndim == 2 else [1, 2] if first.ndim == 3 else []
    for dim in dims:
        size = first.shape[dim]
        if size < 4:
            continue
        sizes = (size, size // 2, max(3, size * 3 // 4))
        yield _axis(name, leaves, dim, sizes, lambda one: one.ndim in (2, 3))


def _axis(
    name: str, leaves: Sequence[Tensor], dim: int, sizes: tuple[int, int, int], fits: Any
) -> Axis:
    size = leaves[0].shape[dim]
    where = [
        (number, dim)
        for number, one in enumerate(leaves)
        if fits(one) and one.ndim > dim and one.shape[dim] == size
    ]
    return Axis(name, tuple(where), sizes, size)


def sized(given: Any, sizes: Mapping[str, int], axes: Mapping[str, Axis]) -> Any:
    """The inputs with other sizes: positions are left out, or repeated."""
    leaves, structure = _pytree.tree_flatten(given)
    numbers = [number for number, one in enumerate(leaves) if isinstance(one, Tensor)]
    for name, size in sizes.items():
        for number, dim in axes[name].where:
            at = numbers[number]
            index = torch.arange(size) % leaves[at].shape[dim]
            leaves[at] = leaves[at].index_select(dim, index)
    return _pytree.tree_unflatten(leaves, structure)
