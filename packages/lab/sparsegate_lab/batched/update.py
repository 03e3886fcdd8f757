"""One step of the weights and gates of all members, with the rates and price of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.gates import OPEN_ABOVE, where_open
from sparsegate.optimizers import add_scaled_, step_gate_, step_weight_

MEMORY = 0.999  # decay of the mean squared gradient, for members whose steps adapt
TINY = 1e-8  # added to the divisor of steps that adapt
BLOCK = 1024  # elements per program of the kernel


class ManyRates(NamedTuple):
    """The settings of one step, one entry per member."""

    lr: Float[Tensor, " member"]
    momentum: Float[Tensor, " member"]
    decay: Float[Tensor, " member"]
    gate_lr: Float[Tensor, " member"]
    gate_momentum: Float[Tensor, " member"]
    price: Float[Tensor, " member"]
    blend: Float[Tensor, " member"]
    adapt: Float[Tensor, " member"]


@dataclass(frozen=True, eq=False)
class Stacked:
    """One parameter of all members, with its gates, if any, and their optimizer state."""

    weight: Float[Tensor, "member *shape"]
    speed: Float[Tensor, "member *shape"]
    gate: Float[Tensor, "member *shape"] | None = None
    gate_speed: Float[Tensor, "member *shape"] | None = None
    noise: Float[Tensor, "member *shape"] | None = None
    """Returns the random numbers that a sampled mask compares gates with, new for every step."""
    average: Float[Tensor, "member *shape"] | None = None
    base: Float[Tensor, " member"] | None = None
    """The price's slope at a closed gate."""
    tilt: Float[Tensor, " member"] | None = None
    """The change of the slope towards an open gate; None if no member has a bimodal price."""
    square: Float[Tensor, "member *shape"] | None = None
    """The mean squared gradient; None if no member's steps adapt."""

    def score(self) -> Float[Tensor, "member *shape"]:
        """What the training mask comes from: above 0.5 where a weight takes part."""
        assert self.gate is not None
        return self.gate if self.noise is None else self.gate - self.noise + OPEN_ABOVE

    def effective(self, *, training: bool) -> Float[Tensor, "member *shape"]:
        """Returns the weight that takes part in the forward pass."""
        if self.gate is None:
            return self.weight
        return where_open(self.score() if training else self.gate, self.weight)


@torch.no_grad()
def move_(param: Stacked, grad: Float[Tensor, "member *shape"], rates: ManyRates) -> None:
    """Updates one parameter of all members by the gradient of the masked weight, in place."""
    to_gate = None if param.gate is None else grad * param.weight  # before the weight moves
    grad = grad if param.gate is None else where_open(param.score(), grad)
    _move_weight_(param, grad, rates)
    if to_gate is not None:
        _move_gate_(param, to_gate, rates)


def _move_weight_(param: Stacked, grad: Tensor, rates: ManyRates) -> None:
    lr, momentum, decay, blend = (
        _on(param, rate) for rate in (rates.lr, rates.momentum, rates.decay, rates.blend)
    )
    grad = torch.addcmul(grad, param.weight, decay)
    if param.square is None:
        step_weight_(param.weight, param.speed, grad, lr=lr, momentum=momentum)
    else:
        param.speed.mul_(momentum).add_(grad)
        add_scaled_(param.weight, _adapted(param, grad, rates), -lr)
    if param.average is not None:
        param.average.lerp_(param.weight, blend)


def _adapted(param: Stacked, grad: Tensor, rates: ManyRates) -> Tensor:
    """Returns Adam's steps for adaptive members: mean gradient over root of mean square."""
    assert param.square is not None
    adapt, momentum = _on(param, rates.adapt), _on(param, rates.momentum)
    new = torch.where(rates.adapt > 0, 1 - MEMORY, 0.0)
    param.square.lerp_(grad.square(), _on(param, new))
    adapted = param.speed * (1 - momentum) / ((param.square * adapt).sqrt() + TINY)
    return torch.where(adapt > 0, adapted, param.speed)


def _move_gate_(param: Stacked, grad: Tensor, rates: ManyRates) -> None:
    assert param.gate is not None
    assert param.gate_speed is not None
    assert param.base is not None
    step_gate_(
        param.gate,
        param.gate_speed,
        grad,
        lr=_on(param, rates.gate_lr),
        momentum=_on(param, rates.gate_momentum),
        base=_on(param, rates.price * param.base),
        tilt=0.0 if param.tilt is None else _on(param, rates.price * param.tilt),
    )


def _on(param: Stacked, rate: Tensor) -> Tensor:
    """One number per member, shaped to broadcast over the parameter."""
    return rate.view(-1, *[1] * (param.weight.ndim - 1))


@cache
def can_fuse() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@torch.no_grad()
def move_fused_(param: Stacked, grad: Float[Tensor, "member *shape"], rates: ManyRates) -> None:
    """Like `move_`, in one pass by a Triton kernel; equal up to rounding."""
    members, size = len(param.weight), param.weight[0].numel()
    unused = param.speed  # passed where the kernel reads nothing
    parts = (param.gate, param.gate_speed, param.noise, param.average, param.square)
    _kernels().move[(-(-size // BLOCK), members)](
        param.weight,
        param.speed,
        *(unused if part is None else part for part in parts),
        grad.contiguous(),
        torch.stack(rates),
        unused if param.base is None else param.base,
        unused if param.tilt is None else param.tilt,
        size,
        members,
        GATED=param.gate is not None,
        SAMPLED=param.noise is not None,
        TILTED=param.tilt is not None,
        AVERAGED=param.average is not None,
        ADAPTED=param.square is not None,
        NEW=1 - MEMORY,
        TINY=TINY,
        BLOCK=BLOCK,
    )


def _kernels() -> Any:
    return import_module(".triton_update_kernels", __package__)
