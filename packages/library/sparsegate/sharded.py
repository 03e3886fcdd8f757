"""Handles sharded tensors (torch's DTensor) and plain ones alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

# Imported by whoever makes sharded tensors; importing it here would take half as long as torch.
HOME = "torch.distributed.tensor"


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether a tensor is sharded over processes.

    >>> import torch
    >>> is_sharded(torch.zeros(2))
    False
    """
    home = sys.modules.get(HOME)
    return home is not None and isinstance(tensor, home.DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds: all of it, unless it is sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor with the parts of all processes; every process must call it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def shared_like(model: Tensor, tensor: Tensor) -> Tensor:
    """The tensor sharded like another one; unchanged if that one is not sharded."""
    if not is_sharded(model):
        return tensor
    shared: Tensor = sys.modules[HOME].distribute_tensor(
        tensor, model.device_mesh, model.placements
    )
    return shared


def sum_of_parts(here: Tensor, of: Tensor) -> Tensor:
    """The sum over processes of what each counted in its part of `of`; all must call it."""
    if not is_sharded(of):
        return here
    home = sys.modules[HOME]
    partial = [home.Partial() if kind.is_shard() else kind for kind in of.placements]
    total: Tensor = home.DTensor.from_local(here, of.device_mesh, partial).full_tensor()
    return total
