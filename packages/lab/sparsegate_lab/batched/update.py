"""One step of the weights and gates of all members, each by its own learning rates, decay and price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.gates import where_open

MEMORY = 0.999  # of the size of gradients, where steps are divided by it
TINY = 1e-8  # added to what steps are divided by


class Rates(NamedTuple):
    """Each member's numbers for one step, in one column each."""

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
    """One parameter of all members, with its gates if it has any and everything that moves with it."""

    weight: Float[Tensor, "member *shape"]
    speed: Float[Tensor, "member *shape"]
    gate: Float[Tensor, "member *shape"] | None = None
    gate_speed: Float[Tensor, "member *shape"] | None = None
    noise: Float[Tensor, "member *shape"] | None = None
    """What a sampled mask compares the gates with, drawn anew for every step."""
    average: Float[Tensor, "member *shape"] | None = None
    base: Float[Tensor, " member"] | None = None
    """The price's slope at a closed gate."""
    tilt: Float[Tensor, " member"] | None = None
    """How much the slope changes towards an open gate; none if no member has a bimodal price."""
    square: Float[Tensor, "member *shape"] | None = None
    """The mean square of the gradients, where a member's steps are to be divided by its root."""

    def score(self) -> Float[Tensor, "member *shape"]:
        """What the mask to train with comes from: above 0.5 where a weight takes part."""
        assert self.gate is not None
        return self.gate if self.noise is None else self.gate - self.noise + 0.5

    def effective(self, *, training: bool) -> Float[Tensor, "member *shape"]:
        """The weight that takes part in the forward pass."""
        if self.gate is None:
            return self.weight
        return where_open(self.score() if training else self.gate, self.weight)


@torch.no_grad()
def move_(each: Stacked, grad: Float[Tensor, "member *shape"], rates: Rates) -> None:
    """Moves one parameter of all members, in place, by the gradient of what took part in the forward pass."""
    push = None if each.gate is None else grad * each.weight  # of the weight before it moves
    grad = grad if each.gate is None else where_open(each.score(), grad)
    _move_weight_(each, grad, rates)
    if push is not None:
        _move_gate_(each, push, rates)


def _move_weight_(each: Stacked, grad: Tensor, rates: Rates) -> None:
    lr, momentum, decay, blend = (
        _on(each, rate) for rate in (rates.lr, rates.momentum, rates.decay, rates.blend)
    )
    grad = torch.addcmul(grad, each.weight, decay)
    each.speed.mul_(momentum).add_(grad)
    each.weight.addcmul_(each.speed if each.square is None else _adapted(each, grad, rates), -lr)
    if each.average is not None:
        each.average.lerp_(each.weight, blend)


def _adapted(each: Stacked, grad: Tensor, rates: Rates) -> Tensor:
    """The speed, for members whose steps adapt as Adam's: the mean gradient over the root of the mean square."""
    assert each.square is not None
    adapt, momentum = _on(each, rates.adapt), _on(each, rates.momentum)
    each.square.lerp_(grad.square(), _on(each, torch.where(rates.adapt > 0, 1 - MEMORY, 0.0)))
    adapted = each.speed * (1 - momentum) / ((each.square * adapt).sqrt() + TINY)
    return torch.where(adapt > 0, adapted, each.speed)


def _move_gate_(each: Stacked, push: Tensor, rates: Rates) -> None:
    assert each.gate is not None
    assert each.gate_speed is not None
    assert each.base is not None
    each.gate_speed.mul_(_on(each, rates.gate_momentum)).add_(push).add_(
        _on(each, rates.price * each.base)
    )
    if each.tilt is not None:
        each.gate_speed.addcmul_(each.gate, _on(each, rates.price * each.tilt))
    each.gate.addcmul_(each.gate_speed, -_on(each, rates.gate_lr)).clamp_(0.0, 1.0)


def _on(each: Stacked, rate: Tensor) -> Tensor:
    """A number for every member in a shape that goes with the parameter."""
    return rate.view(-1, *[1] * (each.weight.ndim - 1))
