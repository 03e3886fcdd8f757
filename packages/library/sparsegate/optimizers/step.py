"""One step of weights and gates, in plain torch. The Triton kernels compute the same."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sparsegate.gates import where_open
from sparsegate.price import Slope

Factor = float | Tensor
"""One number, or one for each network along a leading axis, shaped to broadcast."""


class GatedWeight(NamedTuple):
    """The tensors that one step reads and writes."""

    weight: Float[Tensor, "*shape"]
    velocity: Float[Tensor, "*shape"]
    gate: Float[Tensor, "*shape"]
    gate_velocity: Float[Tensor, "*shape"]


class Rates(NamedTuple):
    """The numbers of one step of one gated weight."""

    lr: float
    momentum: float
    weight_decay: float
    gate_lr: float
    gate_momentum: float
    slope: Slope
    """The gradient of the price."""
    seed: int = 0
    """Seed of the stochastic rounding of 16-bit gates."""


def step_weight_(
    weight: Float[Tensor, "*shape"],
    velocity: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"],
    *,
    lr: Factor,
    momentum: Factor,
) -> None:
    """Moves a weight by SGD with momentum, in place; the gradient includes the weight decay."""
    velocity.mul_(momentum).add_(grad)
    add_scaled_(weight, velocity, -lr)


def step_gate_(
    gate: Float[Tensor, "*shape"],
    velocity: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"] | None,
    *,
    lr: Factor,
    momentum: Factor,
    base: Factor,
    tilt: Factor,
    shift: Float[Tensor, ""] | None = None,
) -> None:
    """Moves gates by SGD with momentum on loss and price, lowers them by `shift`, and clips them.

    A gate without a gradient still pays its price, `base + tilt * gate`.
    """
    velocity.mul_(momentum)
    if grad is not None:
        velocity.add_(grad)
    if not _is_zero(base):
        velocity.add_(base)
    if not _is_zero(tilt):
        velocity.add_(gate * tilt)
    if not _is_zero(lr):
        add_scaled_(gate, velocity, -lr)
    if shift is not None:
        gate.sub_(shift)
    gate.clamp_(0.0, 1.0)


def step_gated_(
    parts: GatedWeight,
    grad: Float[Tensor, "*shape"],
    rates: Rates,
    shift: Float[Tensor, ""] | None = None,
) -> None:
    """Moves a weight and its gates by the gradient of the masked weight.

    The weight takes the gradient where its gate is open. The gate takes its product with the
    weight. In float32 the results equal those of `torch.optim.SGD` and `GateSGD` bit for bit.
    """
    weight, velocity, gate, gate_velocity = parts
    # Copies in float32 of 16-bit gates; the tensors themselves if they are in float32 already.
    wide, wide_velocity = gate.float(), gate_velocity.float()
    to_gate = grad * weight
    to_weight = where_open(wide, grad)
    if rates.weight_decay:
        to_weight = to_weight.add(weight, alpha=rates.weight_decay)
    step_weight_(weight, velocity, to_weight, lr=rates.lr, momentum=rates.momentum)
    step_gate_(
        wide,
        wide_velocity,
        to_gate,
        lr=rates.gate_lr,
        momentum=rates.gate_momentum,
        base=rates.slope.base,
        tilt=rates.slope.tilt,
        shift=shift,
    )
    if gate.dtype != wide.dtype:
        gate.copy_(_rounded(wide, gate.dtype, rates.seed))
        gate_velocity.copy_(wide_velocity)


def add_scaled_(
    value: Float[Tensor, "*shape"], other: Float[Tensor, "*shape"], factor: Factor
) -> None:
    """Adds `factor * other` to a tensor, in place."""
    if isinstance(factor, Tensor):
        value.addcmul_(other, factor)
    else:
        value.add_(other, alpha=factor)


def _is_zero(factor: Factor) -> bool:
    """Whether a factor is known to be zero; a tensor is not read, which could wait for a GPU."""
    return not isinstance(factor, Tensor) and factor == 0


def _rounded(
    value: Float[Tensor, "*shape"], dtype: torch.dtype, seed: int
) -> Float[Tensor, "*shape"]:
    """Rounds to float16 stochastically: up or down with a probability that keeps the mean.

    Most steps of gates are smaller than half the spacing of 16-bit numbers; rounding to nearest
    would lose them. The seed alone decides, so processes with a copy each do not drift apart.
    """
    if dtype != torch.float16:
        return value
    dropped = 0x1FFF  # of the 23 fraction bits of float32, float16 keeps ten
    chance = (
        (_scattered(value.numel(), seed, value.device) & dropped).to(torch.int32).view(value.shape)
    )
    bits = (value.view(torch.int32) + chance) & ~dropped
    return bits.view(torch.float32)


def _scattered(count: int, seed: int, device: torch.device) -> Int64[Tensor, " count"]:
    """Pseudo-random 32-bit numbers, the same as the kernel `scattered` makes."""
    low = 0xFFFFFFFF
    bits = torch.arange(count, device=device) ^ ((seed * 0x9E3779B9) & low)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ((bits ^ (bits >> shift)) * factor) & low
    return bits ^ (bits >> 16)
