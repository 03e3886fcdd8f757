"""The step of all members in one pass over memory, where Triton is installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from .update import MEMORY, TINY, Rates, Stacked

BLOCK = 1024


@cache
def can_fuse() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@torch.no_grad()
def move_fused_(each: Stacked, grad: Float[Tensor, "member *shape"], rates: Rates) -> None:
    """What `move_` does, in place, by a Triton kernel; up to rounding."""
    members, size = len(each.weight), each.weight[0].numel()
    empty = each.speed  # stands where a kernel reads nothing
    parts = (each.gate, each.gate_speed, each.noise, each.average, each.square)
    _kernels().move[(-(-size // BLOCK), members)](
        each.weight,
        each.speed,
        *(empty if part is None else part for part in parts),
        grad.contiguous(),
        torch.stack(rates),
        empty if each.base is None else each.base,
        empty if each.tilt is None else each.tilt,
        size,
        members,
        GATED=each.gate is not None,
        SAMPLED=each.noise is not None,
        TILTED=each.tilt is not None,
        AVERAGED=each.average is not None,
        ADAPTED=each.square is not None,
        NEW=1 - MEMORY,
        TINY=TINY,
        BLOCK=BLOCK,
    )


def _kernels() -> ModuleType:
    return import_module(".triton_update_kernels", __package__)
