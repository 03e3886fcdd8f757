"""Tensors of which every process holds a part (torch's DTensor), and plain ones alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

HOME = "torch.distributed.tensor"  # takes half as long to import as torch; who has not done so has no such tensors


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether this process holds only a part of the tensor.

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
    """A tensor with the parts of all processes; every process must ask for it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def shared_like(model: Tensor, tensor: Tensor) -> Tensor:
    """A whole tensor shared out over the processes as another one is, or as it was if that one is not."""
    if not is_sharded(model):
        return tensor
    shared: Tensor = sys.modules[HOME].distribute_tensor(
        tensor, model.device_mesh, model.placements
    )
    return shared


def sum_of_parts(here: Tensor, of: Tensor) -> Tensor:
    """The sum over all processes of what each has counted in its part of a tensor; every process must ask for it."""
    if not is_sharded(of):
        return here
    home = sys.modules[HOME]
    places = [home.Partial() if place.is_shard() else place for place in of.placements]
    total: Tensor = home.DTensor.from_local(here, of.device_mesh, places).full_tensor()
    return total
