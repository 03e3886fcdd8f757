"""GateSGD: moves a model's gates, next to any optimizer of its weights."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.gates import require_gates
from sparsegate.price import GatePlan, Moment, Penalty
from sparsegate.sharded import local
from sparsegate.target import Target

from .gate_optimizer import GateOptimizer
from .launch import step_gates


class GateSGD(GateOptimizer):
    """SGD with momentum on a model's gates, which adds their price and clips them to [0, 1].

    >>> from sparsegate.gates import gate
    >>> model = gate(nn.Linear(2, 2))
    >>> gates = GateSGD(model, lr=0.5, penalty=Penalty(count=2.0))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> gates.step()

    Train the weights with any other optimizer: `torch.optim.AdamW(sparsegate.weights(model))`.

    Gates are clipped after the step. Clipping in the forward pass would leave clipped gates
    without a gradient. A gate without a gradient still pays its price. A gate with
    `requires_grad=False` does not move.

    Schedulers of torch work on the learning rate. `optimizer.price = ramp(step / steps, over=0.5)`
    raises the price over training; the factor is part of the state dict.

    With a target, the optimizer finds the price, and `print(optimizer.found)` reports it.

    Args:
        model: A gated model.
        lr: The gates' learning rate. Unless given, the price alone would lower a gate from 0.9 to
            the threshold in a fifth of `steps`; without `steps` it is 1. With a target, a factor on
            the distance that gates travel; 1 is right.
        momentum: The gates' momentum, in [0, 1).
        penalty: What open and undecided gates cost; `Penalty()` unless given. Not with a target.
        target: What training should end on, instead of a penalty.
        steps: The number of steps of the whole training. A target needs it. With a penalty, the
            learning rate follows from it, or else the optimizer warns if the price is too low to
            close any gate.
        judge: Returns the model's validation accuracy in percent, the same on every process.
            Only `Target(max_drop=...)` calls it.

    Raises:
        ValueError: If an argument is out of range, the model has no gates, `GatedSGD` has taken
            over its gates, or the target is impossible.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float | None = None,
        momentum: float = 0.9,
        penalty: Penalty | None = None,
        target: Target | None = None,
        steps: int | None = None,
        judge: Callable[[], float] | None = None,
    ) -> None:
        check_gates(model, lr, momentum)
        params = [gate.gate for gate in require_gates(model).values()]
        super().__init__(params, {"lr": lr, "momentum": momentum, "price": 1.0})
        self._set_plan(model, penalty, target, steps, judge)

    @property
    def _gate_group(self) -> dict[str, Any]:
        return self.param_groups[0]

    def _step(self) -> None:
        step_gate_group(self.param_groups[0], self.state, self.plan)


def check_gates(model: nn.Module, lr: float | None, momentum: float) -> None:
    """Raises if the gates' settings are out of range, or the gates get no gradients."""
    if not ((lr is None or lr >= 0) and 0 <= momentum < 1):
        raise ValueError(
            "the gates' lr is zero or more and momentum in [0, 1), "
            f"got lr={lr}, momentum={momentum}"
        )
    if any(gate.whole for gate in require_gates(model).values()):
        raise ValueError(
            "GatedSGD has taken over these gates, and they get no gradients; "
            "gate a fresh model, or step GatedSGD alone"
        )


def step_gate_group(
    group: dict[str, Any], state: MutableMapping[Tensor, dict[str, Any]], plan: GatePlan
) -> None:
    """Moves the gates of a parameter group once, as their plan says."""
    params: list[Tensor] = group["params"]
    memory = [state[param] for param in params]
    moment = Moment(group["lr"], group["price"], lambda: [param.grad for param in params], memory)
    motion = plan.motion(moment)
    if motion is None:
        return
    rates = zip(motion.rates, motion.slopes, strict=True)
    for index, (param, kept, (lr, slope)) in enumerate(zip(params, memory, rates, strict=True)):
        if not param.requires_grad:
            continue
        if "momentum_buffer" not in kept:
            kept["momentum_buffer"] = torch.zeros_like(param)
        grad = None if param.grad is None else local(param.grad)
        velocity = local(kept["momentum_buffer"])
        shift = motion.shift_of(index)
        step_gates(local(param), velocity, grad, lr, group["momentum"], slope, shift)
