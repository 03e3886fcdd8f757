"""One step of one weight and its gates, in plain torch: what the kernel computes, and the way where there is none."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sparsegate.price import Slope

OPEN_ABOVE = 0.5


class Moved(NamedTuple):
    """What one step reads and writes: a weight, its gates, and the speeds of both."""

    weight: Float[Tensor, "*shape"]
    speed: Float[Tensor, "*shape"]
    gate: Float[Tensor, "*shape"]
    gate_speed: Float[Tensor, "*shape"]


class Pace(NamedTuple):
    """The numbers of one step."""

    lr: float
    momentum: float
    weight_decay: float
    gate_lr: float
    gate_momentum: float
    slope: Slope
    """The price's gradient, as a line over the gate."""
    seed: int = 0
    """Of the rounding of gates in 16 bits."""


def move(parts: Moved, grad: Float[Tensor, "*shape"], pace: Pace) -> None:
    """Moves a weight and its gates by the gradient of the masked weight.

    The weight takes it where its gate is open, the gate takes its product with the weight. The order of operations is
    that of SGD and of GateSGD, so that in float32 the result is theirs to the last bit.
    """
    weight, speed, gate, gate_speed = parts
    wide, wide_speed = gate.float(), gate_speed.float()
    to_weight: Tensor = torch.ops.aten.threshold_backward(grad, wide, OPEN_ABOVE)
    if pace.weight_decay:
        to_weight.add_(weight, alpha=pace.weight_decay)
    wide_speed = wide_speed.mul_(pace.gate_momentum).add_(grad * weight).add_(pace.slope.base)
    if pace.slope.tilt:
        wide_speed.add_(wide * pace.slope.tilt)
    speed.mul_(pace.momentum).add_(to_weight)
    weight.add_(speed, alpha=-pace.lr)
    gate.copy_(
        _rounded(wide.add_(wide_speed, alpha=-pace.gate_lr).clamp_(0.0, 1.0), gate.dtype, pace.seed)
    )
    gate_speed.copy_(wide_speed)


def _rounded(
    value: Float[Tensor, "*shape"], dtype: torch.dtype, seed: int
) -> Float[Tensor, "*shape"]:
    """Numbers of 16 bits that are right on average: up or down by chance, the nearer the likelier.

    Steps of gates are mostly smaller than half the spacing of such numbers, and would all be lost otherwise. The seed
    decides, and no random state, so that processes with a copy each do not drift apart.
    """
    if dtype != torch.float16:
        return value
    dropped = 0x1FFF  # of the 23 bits behind the point, float16 keeps ten
    chance = (
        (_scattered(value.numel(), seed, value.device) & dropped).to(torch.int32).view(value.shape)
    )
    bits = (value.view(torch.int32) + chance) & ~dropped
    return bits.view(torch.float32)


def _scattered(count: int, seed: int, device: torch.device) -> Int64[Tensor, " count"]:
    """Numbers of 32 bits that look random, as the kernel of this name makes them."""
    low = 0xFFFFFFFF
    bits = torch.arange(count, device=device) ^ ((seed * 0x9E3779B9) & low)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ((bits ^ (bits >> shift)) * factor) & low
    return bits ^ (bits >> 16)
