"""Counts over gates that may be sharded, the same on every process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from sparsegate.gates import Gate
from sparsegate.sharded import whole


def total(values: Iterable[Tensor]) -> Tensor:
    """The sum of numbers that may be parts of a sharded sum, on the device: nobody waits."""
    return torch.stack([whole(value) for value in values]).sum()


def num_true(masks: Iterable[Tensor]) -> int:
    """How many elements of some masks are true."""
    return int(total(mask.sum() for mask in masks))


def expected_open(gates: Sequence[Gate], shift: Tensor) -> Tensor:
    """How many weights drawn masks would keep if all gates were lower by `shift`."""
    # Exact for a hundred million gates too, which a float32 is not.
    return total(each.draw.num_kept(each.gate.detach(), lowered=shift) for each in gates).double()


def shift_to(gates: Sequence[Gate], wanted: float, *, at_most: float) -> Tensor:
    """By how much to lower all gates so that a drawn mask keeps `wanted` weights, found by bisection on the device.

    The answer is between plus and minus `at_most`, to a part in 2^15 of it; negative where too few are open.
    """
    device = whole(gates[0].gate.detach().sum()).device
    low, high = torch.tensor(-at_most, device=device), torch.tensor(at_most, device=device)
    for _ in range(16):  # 2^16 steps between the ends
        middle = (low + high) / 2
        more = expected_open(gates, middle) > wanted
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    return high
