"""GatedAdamW: one optimizer for weights and gates, with AdamW's steps for the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from sparsegate.gates import gated_weights, require_gates, weights
from sparsegate.price import Penalty
from sparsegate.target import Target

from .gate_optimizer import GateOptimizer
from .gate_sgd import check_gates, step_gate_group


class GatedAdamW(GateOptimizer):
    """`torch.optim.AdamW` on a gated model's weights and `GateSGD` on its gates, in one.

    >>> import torch
    >>> from sparsegate.gates import gate
    >>> model = gate(nn.Linear(2, 2))
    >>> optimizer = GatedAdamW(model, lr=1e-3, penalty=Penalty(count=2.0))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()

    It is a single optimizer, so trainers that know one optimizer (transformers, Lightning) step,
    scale and save it as a whole. The weights' steps equal those of `torch.optim.AdamW` bit for
    bit. Only gated weights decay; norms, biases and gates do not.

    Schedulers of torch change the learning rate of the weights, and with a penalty that of the
    gates. A target has a schedule of its own, so they do not change the gates' then.

    To clip gradients, pass `clip`, or call `clip_grad_norm_(sparsegate.weights(model), ...)`. With
    `model.parameters()`, the gates' gradients would count towards the norm, and weights would
    be clipped too hard.

    Args:
        model: A gated model.
        lr: The weights' learning rate.
        betas: The decay rates of the means of gradients and squared gradients.
        eps: The number added to the divisor of steps.
        weight_decay: The decay of gated weights.
        clip: The largest norm of all weights' gradients together; larger ones are scaled down
            before the step. The gates' gradients neither count nor change.
        fused: Whether one kernel moves all weights, as in `torch.optim.AdamW`; torch decides
            unless given.
        params: Parameter groups of your own, as for `torch.optim.AdamW`; their settings, such as
            `weight_decay`, override the arguments. Parameters in no group are treated as above.
        gate_lr: The gates' learning rate. Unless given, the price alone would lower a gate from 0.9
            to the threshold in a fifth of `steps`; without `steps` it is 1. With a target, a factor
            on the distance that gates travel; 1 is right.
        gate_momentum: The gates' momentum, in [0, 1).
        penalty: What open and undecided gates cost; `Penalty()` unless given. Not with a target.
        target: What training should end on, instead of a penalty.
        steps: The number of steps of the whole training. A target needs it. With a penalty, the
            learning rate follows from it, or else the optimizer warns if the price is too low to
            close any gate.
        judge: Returns the model's validation accuracy in percent, the same on every process.
            Only `Target(max_drop=...)` calls it.

    Raises:
        ValueError: If an argument is out of range, a group contains a gate, or the target is
            impossible.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        clip: float | None = None,
        fused: bool | None = None,
        params: Sequence[dict[str, Any]] = (),
        gate_lr: float | None = None,
        gate_momentum: float = 0.9,
        penalty: Penalty | None = None,
        target: Target | None = None,
        steps: int | None = None,
        judge: Callable[[], float] | None = None,
    ) -> None:
        check_gates(model, gate_lr, gate_momentum)
        if clip is not None and not clip > 0:
            raise ValueError(f"clip is a norm above zero, or None for no clipping, got {clip}")
        self.clip = clip
        gates = [gate.gate for gate in require_gates(model).values()]
        own = [{**group, "params": list(group["params"])} for group in params]
        taken = {id(param) for group in own for param in group["params"]}
        if any(id(gate) in taken for gate in gates):
            raise ValueError(
                "params contains gates, which have a group of their own; "
                "make the groups of sparsegate.weights(model)"
            )
        gated = {id(weight) for weight in gated_weights(model)}
        free = [param for param in weights(model) if id(param) not in taken]
        groups = [
            *own,
            {"params": [param for param in free if id(param) in gated]},
            {"params": [param for param in free if id(param) not in gated], "weight_decay": 0.0},
        ]
        # torch's own optimizer checks the settings and computes the steps of the weights.
        self._adamw = AdamW(
            [group for group in groups if group["params"]],
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            fused=fused,
        )
        last = {"params": gates, "lr": gate_lr, "momentum": gate_momentum, "price": 1.0}
        last["gate_lr"] = gate_lr  # schedulers change the other one
        super().__init__([*self._adamw.param_groups, last], self._adamw.defaults)
        self._set_plan(model, penalty, target, steps, judge)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_adamw": self._adamw, "clip": self.clip}

    @property
    def gate_lr(self) -> float:
        """The gates' learning rate."""
        return float(self._moving_gates["lr"])

    @gate_lr.setter
    def gate_lr(self, lr: float) -> None:
        self._gate_group["lr"] = self._gate_group["gate_lr"] = lr

    @property
    def _moving_gates(self) -> dict[str, Any]:
        """The gates' group, with the learning rate of a target if there is one."""
        group = self._gate_group
        return group if self.penalty else {**group, "lr": group["gate_lr"]}

    @property
    def _gate_group(self) -> dict[str, Any]:
        return self.param_groups[-1]

    def _step(self) -> None:
        # Loading a state dict replaces both, and schedulers write to the groups.
        self._adamw.param_groups, self._adamw.state = self.param_groups[:-1], self.state
        if self.clip is not None:
            moving = [param for group in self.param_groups[:-1] for param in group["params"]]
            torch.nn.utils.clip_grad_norm_(moving, self.clip)
        self._adamw.step()
        step_gate_group(self._moving_gates, self.state, self.plan)
