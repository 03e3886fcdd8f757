"""GatedSGD: one optimizer for weights and gates, which needs one gradient for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from sparsegate.gates import Threshold, gated_weights, require_gates
from sparsegate.price import Moment, Motion, Penalty, Slope
from sparsegate.sharded import is_sharded, local
from sparsegate.target import Target

from .cached_launch import CachedLaunch, SharedRates, cached_launch_of
from .gate_optimizer import GateOptimizer
from .launch import Update, step_all
from .step import GatedWeight, Rates


class GatedSGD(GateOptimizer):
    """SGD with momentum on a gated model: `torch.optim.SGD` on weights and `GateSGD` on gates.

    >>> from sparsegate.gates import gate
    >>> model = gate(nn.Linear(2, 2))
    >>> optimizer = GatedSGD(model, lr=0.1, gate_lr=0.5, penalty=Penalty(count=2.0))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()

    The steps are the same as those of the two optimizers, at lower cost. A gate's gradient is the
    masked weight's gradient times the weight, so it is never stored: a gated weight takes 8 bytes
    more than a plain one instead of 12, or 4 with `small`. Several processes exchange no more than
    for a plain network. On a GPU one Triton kernel computes the whole step in one pass.

    The optimizer takes the gates over: they get no gradients any more, and `weight.grad` is the
    gradient of the masked weight, also for closed gates. It needs the `Threshold` draw, because
    the mask of a random draw is gone when the step comes.

    Args:
        model: A gated model; wrap it in DDP after building the optimizer.
        lr: The weights' learning rate.
        momentum: The weights' momentum, in [0, 1).
        weight_decay: The weights' decay, as in `torch.optim.SGD`.
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
        small: Keep gates in 16 bits, rounded stochastically, and their momentum in bfloat16.

    Raises:
        ValueError: If an argument is out of range, a gated weight is frozen or its masks are drawn
            at random, or the target is impossible.
    """

    _cached: CachedLaunch | None = None  # not part of the state: loading and copying drop it

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        gate_lr: float | None = None,
        gate_momentum: float = 0.9,
        penalty: Penalty | None = None,
        target: Target | None = None,
        steps: int | None = None,
        judge: Callable[[], float] | None = None,
        small: bool = False,
    ) -> None:
        _check(lr, momentum, weight_decay, gate_lr, gate_momentum)
        take_over_(model, small=small)
        gated, gates = gated_weights(model), [gate.gate for gate in require_gates(model).values()]
        ours = {id(param) for param in (*gated, *gates)}
        others = [param for param in model.parameters() if id(param) not in ours]
        usual = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        groups: list[dict[str, Any]] = [
            {"params": gated},
            {"params": gates, "lr": gate_lr, "momentum": gate_momentum, "price": 1.0, "steps": 0},
        ]
        super().__init__([*groups, {"params": others}] if others else groups, usual)
        self._set_plan(model, penalty, target, steps, judge)

    @property
    def _gate_group(self) -> dict[str, Any]:
        return self.param_groups[1]

    def _step(self) -> None:
        self._step_gated()
        for group in self.param_groups[2:]:
            self._step_others(group)

    def _step_gated(self) -> None:
        weights, gates = self.param_groups[:2]
        gates["steps"] += 1
        motion = self._motion()
        seed = gates["steps"] * len(motion.slopes)
        own = (weights["lr"], weights["momentum"], weights["weight_decay"])
        if not motion.shifts and self._step_cached(
            motion, (*own, motion.rates[0], gates["momentum"]), seed
        ):
            return
        updates = [
            self._update(weight, gate)
            for weight, gate in zip(weights["params"], gates["params"], strict=True)
        ]
        rates = [
            _of_weight(Rates(*own, gate_lr, gates["momentum"], slope, seed + index), weight)
            for index, (weight, gate_lr, slope) in enumerate(
                zip(weights["params"], motion.rates, motion.slopes, strict=True)
            )
        ]
        if motion.shifts:
            for index, (update, rate) in enumerate(zip(updates, rates, strict=True)):
                step_all([update], [rate], motion.shift_of(index))
            return
        step_all(updates, rates, motion.shift)
        self._remember(updates, shifted=motion.shift is not None)

    def _motion(self) -> Motion:
        """How gates move in this step; frozen ones keep their values."""
        weights, gates = (group["params"] for group in self.param_groups[:2])
        # Among the weights' state: loading would cast tensors of a 16-bit gate to 16 bits.
        memory = [self.state[weight] for weight in weights]
        group = self._gate_group

        def gradients() -> list[Tensor | None]:
            return [None if each.grad is None else each.grad * each for each in weights]

        motion = self.plan.motion(Moment(group["lr"], group["price"], gradients, memory))
        return motion or Motion([0.0] * len(gates), [Slope(0.0, 0.0)] * len(gates))

    def _update(self, weight: Tensor, gate: Tensor) -> Update:
        # A gate without a gradient still pays its price.
        grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        parts = GatedWeight(weight, self._velocity(weight), gate, self._gate_velocity(weight, gate))
        if is_sharded(weight):
            return Update(GatedWeight(*map(local, parts)), local(grad))
        return Update(parts, grad)

    def _step_cached(self, motion: Motion, rates: SharedRates, seed: int) -> bool:
        """Steps by the cached launch if all tensors are where they were; says whether they are."""
        cached, shifted = self._cached, motion.shift is not None
        if torch.compiler.is_compiling() or cached is None or cached.shifted != shifted:
            return False
        if any(rate != motion.rates[0] for rate in motion.rates):
            return False
        if not cached.comes_from(self.state, *self._gated_params()):
            return False
        grads = cached.grads()
        if grads is not None:
            cached.step(grads, motion.slopes, rates, seed, motion.shift)
        return grads is not None

    def _remember(self, updates: list[Update], *, shifted: bool) -> None:
        """Caches the launch: in a small network, Python takes longer than the GPU."""
        params = self._gated_params()
        if not (torch.compiler.is_compiling() or any(map(is_sharded, params[0]))):
            self._cached = cached_launch_of(updates, self.state, *params, shifted=shifted)

    def _gated_params(self) -> list[list[Tensor]]:
        return [group["params"] for group in self.param_groups[:2]]

    def _step_others(self, group: dict[str, Any]) -> None:
        moving = [param for param in group["params"] if param.grad is not None]
        grads = [param.grad for param in moving]
        velocities = [self._velocity(param) for param in moving]
        sharded = any(map(is_sharded, moving))
        fused = bool(moving) and not sharded and all(param.is_cuda for param in moving)
        if sharded:
            moving, grads, velocities = (
                [local(tensor) for tensor in column] for column in (moving, grads, velocities)
            )
        sgd(
            moving,
            grads,
            list[Tensor | None](velocities),
            foreach=not fused,
            fused=fused,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def _velocity(
        self, param: Tensor, name: str = "momentum_buffer", dtype: torch.dtype | None = None
    ) -> Tensor:
        state, dtype = self.state[param], dtype or param.dtype
        if name not in state:
            state[name] = torch.zeros_like(param, dtype=dtype)
        elif state[name].dtype != dtype:  # loading a state dict casts to the parameter's type
            state[name] = state[name].to(dtype)
        velocity: Tensor = state[name]
        return velocity

    def _gate_velocity(self, weight: Tensor, gate: Tensor) -> Tensor:
        # Among the weight's state: in a float16 gate's, loading would cast bfloat16 to float16.
        dtype = torch.bfloat16 if gate.dtype == torch.float16 else gate.dtype
        return self._velocity(weight, "gate_momentum_buffer", dtype)


def _of_weight(rates: Rates, weight: Tensor) -> Rates:
    """The rates of one weight: without a gradient, only its gates move, as by SGD."""
    if weight.grad is not None:
        return rates
    return rates._replace(lr=0.0, momentum=1.0, weight_decay=0.0)


def take_over_(model: nn.Module, *, small: bool = False) -> None:
    """Prepares a model's gates for `GatedSGD`, in place; `GatedSGD` calls it.

    Call it yourself only if DDP wraps the model before the optimizer is built.

    Args:
        model: A gated model.
        small: Keep gates in 16 bits.
    """
    for (name, gate), weight in zip(
        require_gates(model).items(), gated_weights(model), strict=True
    ):
        if not isinstance(gate.draw, Threshold):
            raise ValueError(
                f"GatedSGD moves gates under Threshold only, {name} has {gate.draw}; "
                "use SGD and GateSGD"
            )
        if not weight.requires_grad:
            raise ValueError(
                f"GatedSGD moves weights and gates together, but {name} is frozen; "
                "use SGD and GateSGD"
            )
        if isinstance(model, nn.parallel.DistributedDataParallel) and gate.gate.requires_grad:
            raise ValueError(
                "the model is wrapped in DistributedDataParallel; "
                "build GatedSGD first, then wrap it"
            )
        gate.whole = True
        gate.gate.requires_grad_(False)
        if small:
            gate.gate.data = gate.gate.data.half()


def _check(
    lr: float, momentum: float, weight_decay: float, gate_lr: float | None, gate_momentum: float
) -> None:
    if not (
        min(lr, weight_decay, gate_lr or 0.0) >= 0 and 0 <= momentum < 1 and 0 <= gate_momentum < 1
    ):
        raise ValueError(
            "learning rates and decay are zero or more and momenta in [0, 1), got "
            f"lr={lr}, gate_lr={gate_lr}, weight_decay={weight_decay}, {momentum=}, "
            f"{gate_momentum=}"
        )
