"""The exact cut: which weights a given number leaves, found by bisection on their gates."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sparsegate.sharded import local, shared_like, whole

from .count import num_true, num_true_here

Key = Sequence[Float[Tensor, "..."]]  # one number, zero or more, for each weight of each layer
Masks = list[Bool[Tensor, "..."]]
LARGEST = 0x7F800000  # the bits of infinity; non-negative floats are in the order of their bits


def choose(gates: Key, ties: Key, count: int) -> Masks:
    """Masks with exactly `count` true: those of the highest gates; equal gates by `ties`.

    Weights that are equal in both are chosen by position. Every layer keeps its best weight
    whatever its rank, so `count` is at least the number of layers. Works on sharded tensors; all
    processes must call it.

    >>> choose([torch.tensor([0.0, 1.0, 1.0])], [torch.tensor([9.0, 2.0, 3.0])], 1)
    [tensor([False, False,  True])]
    """
    best = [highest([gate], [tie], 1)[0] for gate, tie in zip(gates, ties, strict=True)]
    rest = highest(gates, ties, count - len(best), among=[~mask for mask in best])
    return [one | other for one, other in zip(best, rest, strict=True)]


def highest(keys: Key, ties: Key, count: int, *, among: Masks | None = None) -> Masks:
    """Masks of the `count` highest keys, of all layers together; equal keys by `ties`.

    Args:
        keys: One number, zero or more, for each weight of each layer.
        ties: The same, to decide between equal keys.
        count: How many weights to choose.
        among: Masks of the weights to choose from; all of them unless given.
    """
    if among is None:
        among = [torch.ones_like(key, dtype=torch.bool) for key in keys]
    chosen: Masks = [torch.zeros_like(mask) for mask in among]
    for key in (keys, ties):
        level = _level(key, among, count)
        above = [mask & (value > level) for mask, value in zip(among, key, strict=True)]
        chosen = [mask | more for mask, more in zip(chosen, above, strict=True)]
        among = [mask & (value == level) for mask, value in zip(among, key, strict=True)]
        count -= num_true(above)
    return [mask | more for mask, more in zip(chosen, _by_position(among, count), strict=True)]


def _level(key: Key, among: Masks, count: int) -> float:
    """The lowest number that at most `count` of the keys are above."""
    here = [(local(mask), local(value)) for mask, value in zip(among, key, strict=True)]
    low, high = 0, LARGEST
    while low < high:
        middle = (low + high) // 2
        number = _number(middle)
        above = num_true_here([mask & (value > number) for mask, value in here], key)
        low, high = (low, middle) if above <= count else (middle + 1, high)
    return _number(low)


def _by_position(among: Masks, count: int) -> Masks:
    """The first `count` of tied weights, layer by layer."""
    chosen: Masks = []
    for mask in among:
        here = min(count, num_true([mask]))
        chosen.append(_first_true(mask, here))
        count -= here
    return chosen


def _first_true(mask: Bool[Tensor, "..."], count: int) -> Bool[Tensor, "..."]:
    if count in (0, num_true([mask])):
        return mask & (count > 0)
    every = whole(mask)
    found = every & (every.flatten().cumsum(0).view(every.shape) <= count)
    return shared_like(mask, found)


def _number(bits: int) -> float:
    number: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return number
