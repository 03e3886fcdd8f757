"""Counts over gates that may be sharded; every process gets the same result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from sparsegate.gates import Gate
from sparsegate.sharded import is_sharded, sum_of_parts, whole


def total(values: Iterable[Tensor]) -> Tensor:
    """The sum of numbers that may be parts of a sharded sum, left on the device."""
    return torch.stack([whole(value) for value in values]).sum()


def num_true(masks: Iterable[Tensor]) -> int:
    """The number of true elements in all masks together."""
    return int(total(mask.sum() for mask in masks))


def num_true_here(masks: Iterable[Tensor], of: Sequence[Tensor]) -> int:
    """The number of true elements in the parts of masks that all processes hold.

    Tensors that are sharded alike cost one message together, not one each.

    Args:
        masks: The part of each mask that this process holds.
        of: For each mask a tensor that is sharded like it, or not at all.
    """
    alike: dict[Any, tuple[Tensor, list[Tensor]]] = {}
    for mask, model in zip(masks, of, strict=True):
        layout = (model.device_mesh, model.placements) if is_sharded(model) else None
        alike.setdefault(layout, (model, []))[1].append(mask.sum())
    return sum(int(sum_of_parts(torch.stack(here).sum(), model)) for model, here in alike.values())


def expected_open(gates: Sequence[Gate], shift: Tensor) -> Tensor:
    """The expected number of weights that drawn masks keep if all gates were lower by `shift`."""
    # In float64, which is exact for a hundred million gates; float32 is not.
    return total(gate.draw.num_kept(gate.gate.detach(), lowered=shift) for gate in gates).double()


def shift_to(gates: Sequence[Gate], wanted: float, *, at_most: float) -> Tensor:
    """The distance to lower all gates by so that drawn masks keep `wanted` weights.

    Found by bisection on the device. The result is between plus and minus `at_most`, accurate to
    one part in 2^15 of it, and negative if too few gates are open.
    """
    device = whole(gates[0].gate.detach().sum()).device
    low, high = torch.tensor(-at_most, device=device), torch.tensor(at_most, device=device)
    for _ in range(16):  # 2^16 steps between the ends
        middle = (low + high) / 2
        more = expected_open(gates, middle) > wanted
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    return high
