"""The exact cut: which weights stay if so many are to stay, found by bisection on their gates."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sparsegate.sharded import shared_like, whole

from .count import num_true

Key = Sequence[Float[Tensor, "..."]]  # one number, zero or more, for each weight of each layer
Masks = list[Bool[Tensor, "..."]]
LARGEST = 0x7F800000  # the bits of infinity; numbers from zero up are in the order of their bits


def choose(gates: Key, ties: Key, count: int) -> Masks:
    """Masks with exactly `count` true: those of the highest gates; equal gates by `ties`, then by position.

    Every layer keeps its best weight whatever its rank, so `count` is at least the number of layers. Works on sharded
    tensors, on which all processes must call it.

    >>> choose([torch.tensor([0.0, 1.0, 1.0])], [torch.tensor([9.0, 2.0, 3.0])], 1)
    [tensor([False, False,  True])]
    """
    best = [
        _first([gate], [tie], [torch.ones_like(gate, dtype=torch.bool)], 1)[0]
        for gate, tie in zip(gates, ties, strict=True)
    ]
    rest = _first(gates, ties, [~mask for mask in best], count - len(best))
    return [one | other for one, other in zip(best, rest, strict=True)]


def _first(gates: Key, ties: Key, among: Masks, count: int) -> Masks:
    """The first `count` of the weights in `among`."""
    chosen: Masks = [torch.zeros_like(mask) for mask in among]
    for key in (gates, ties):
        level = _level(key, among, count)
        above = [mask & (value > level) for mask, value in zip(among, key, strict=True)]
        chosen = [one | other for one, other in zip(chosen, above, strict=True)]
        among = [mask & (value == level) for mask, value in zip(among, key, strict=True)]
        count -= num_true(above)
    return [one | other for one, other in zip(chosen, _by_position(among, count), strict=True)]


def _level(key: Key, among: Masks, count: int) -> float:
    """The lowest number that at most `count` of the keys are above."""
    low, high = 0, LARGEST
    while low < high:
        middle = (low + high) // 2
        fits = (
            num_true(
                mask & (value > _number(middle)) for mask, value in zip(among, key, strict=True)
            )
            <= count
        )
        low, high = (low, middle) if fits else (middle + 1, high)
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
