"""GatedSGD: one optimiser for weights and gates, which needs one gradient for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.sgd import sgd

from sparsegate.gates import Threshold, gated_weights, require_gates
from sparsegate.price import Penalty, Slope
from sparsegate.sharded import is_sharded, local

from .cached_launch import Convoy, Rates, convoy_of
from .launch import Row, move_all
from .move import Moved, Pace


class GatedSGD(Optimizer):
    """SGD with momentum on all of a gated model: `torch.optim.SGD` on its weights and `GateSGD` on its gates, in one.

    >>> from sparsegate.gates import gate
    >>> model = gate(nn.Linear(2, 2))
    >>> optimizer = GatedSGD(model, lr=0.1, gate_lr=0.5, penalty=Penalty(count=2.0))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()

    The steps are the same as those of the two; what differs is the cost. A gate's gradient is the masked weight's times
    the weight, so none is kept: a gated weight takes 8 bytes more than a plain one instead of 12, or 4 with `small`,
    which keeps gates in 16 bits, rounded by chance, and their momentum in bfloat16. Several processes exchange
    no more than for a plain network. On a GPU one Triton kernel does it all in one pass. It takes the gates over: they
    get no gradients any more, and closed weights' `grad` is that of the masked weight. Threshold only: a mask drawn
    by chance is gone when the step comes.
    """

    _convoy: Convoy | None = None  # not part of the state: whoever loads or copies that looks again

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        gate_lr: float = 1.0,
        gate_momentum: float = 0.9,
        penalty: Penalty | None = None,
        small: bool = False,
    ) -> None:
        _check(lr, momentum, weight_decay, gate_lr, gate_momentum)
        self.penalty = penalty or Penalty()
        take_over_(model, small=small)
        gated, gates = gated_weights(model), [each.gate for each in require_gates(model).values()]
        ours = {id(each) for each in (*gated, *gates)}
        others = [each for each in model.parameters() if id(each) not in ours]
        usual = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        groups: list[dict[str, Any]] = [
            {"params": gated},
            {"params": gates, "lr": gate_lr, "momentum": gate_momentum, "price": 1.0, "steps": 0},
        ]
        super().__init__([*groups, {"params": others}] if others else groups, usual)

    @property
    def price(self) -> float:
        """The factor on the penalty at this moment, 1 unless set."""
        return float(self.param_groups[1]["price"])

    @price.setter
    def price(self, factor: float) -> None:
        self.param_groups[1]["price"] = factor

    @property
    def gate_lr(self) -> float:
        """The gates' learning rate."""
        return float(self.param_groups[1]["lr"])

    @gate_lr.setter
    def gate_lr(self, lr: float) -> None:
        self.param_groups[1]["lr"] = lr

    def __getstate__(self) -> dict[str, Any]:
        # For copy.deepcopy and pickle: torch's own leaves out what it does not know of.
        return super().__getstate__() | {"penalty": self.penalty}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Moves every weight and every gate once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._move_gated()
        for group in self.param_groups[2:]:
            self._move_others(group)
        return loss

    def _move_gated(self) -> None:
        weights, gates = self.param_groups[:2]
        gates["steps"] += 1
        sizes = [each.numel() for each in gates["params"]]
        slopes = [slope.times(gates["price"]) for slope in self.penalty.slopes(sizes)]
        seed = gates["steps"] * len(slopes)
        rates = (
            weights["lr"],
            weights["momentum"],
            weights["weight_decay"],
            gates["lr"],
            gates["momentum"],
        )
        if torch.compiler.is_compiling() or not self._move_as_before(slopes, rates, seed):
            rows = [
                self._row(weight, gate)
                for weight, gate in zip(weights["params"], gates["params"], strict=True)
            ]
            paces = [Pace(*rates, slope, seed + place) for place, slope in enumerate(slopes)]
            move_all(
                rows,
                [_own(pace, weight) for pace, weight in zip(paces, weights["params"], strict=True)],
            )
            self._remember(rows)

    def _row(self, weight: Tensor, gate: Tensor) -> Row:
        # A gate without a gradient still pays its price.
        grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        parts = Moved(weight, self._speed(weight), gate, self._gate_speed(weight, gate))
        return (
            Row(Moved(*map(local, parts)), local(grad)) if is_sharded(weight) else Row(parts, grad)
        )

    def _move_as_before(self, slopes: list[Slope], rates: Rates, seed: int) -> bool:
        """Whether all lies where it lay at the last step, and so was moved."""
        if self._convoy is None or not self._convoy.comes_from(self.state, *self._gated_params()):
            return False
        grads = self._convoy.grads()
        if grads is not None:
            self._convoy.move(grads, slopes, rates, seed)
        return grads is not None

    def _remember(self, rows: list[Row]) -> None:
        """Makes the next step cheaper, where a launch costs: in a small network Python takes longer than the GPU."""
        params = self._gated_params()
        if not (torch.compiler.is_compiling() or any(map(is_sharded, params[0]))):
            self._convoy = convoy_of(rows, self.state, *params)

    def _gated_params(self) -> list[list[Tensor]]:
        return [group["params"] for group in self.param_groups[:2]]

    def _move_others(self, group: dict[str, Any]) -> None:
        moving = [param for param in group["params"] if param.grad is not None]
        grads, speeds = [param.grad for param in moving], [self._speed(param) for param in moving]
        sharded = any(map(is_sharded, moving))
        fused = bool(moving) and not sharded and all(param.is_cuda for param in moving)
        if sharded:
            moving, grads, speeds = (
                [local(each) for each in column] for column in (moving, grads, speeds)
            )
        sgd(
            moving,
            grads,
            list[Tensor | None](speeds),
            foreach=not fused,
            fused=fused,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def _speed(
        self, param: Tensor, name: str = "momentum_buffer", dtype: torch.dtype | None = None
    ) -> Tensor:
        state, dtype = self.state[param], dtype or param.dtype
        if name not in state:
            state[name] = torch.zeros_like(param, dtype=dtype)
        elif (
            state[name].dtype != dtype
        ):  # loading a state dict gives every number the parameter's type
            state[name] = state[name].to(dtype)
        speed: Tensor = state[name]
        return speed

    def _gate_speed(self, weight: Tensor, gate: Tensor) -> Tensor:
        # Among the weight's state: there, a momentum in bfloat16 survives loading, in that of a gate in float16 not.
        return self._speed(
            weight,
            "gate_momentum_buffer",
            torch.bfloat16 if gate.dtype == torch.float16 else gate.dtype,
        )


def _own(pace: Pace, weight: Tensor) -> Pace:
    """The pace of one weight: what has no gradient stands still, as by SGD, and only its gates move."""
    return (
        pace if weight.grad is not None else pace._replace(lr=0.0, momentum=1.0, weight_decay=0.0)
    )


def take_over_(model: nn.Module, *, small: bool = False) -> None:
    """Readies a model's gates for GatedSGD, which does it itself; before DDP wraps the model, if it does."""
    for (name, each), weight in zip(
        require_gates(model).items(), gated_weights(model), strict=True
    ):
        if not isinstance(each.draw, Threshold):
            raise ValueError(
                f"GatedSGD moves gates under Threshold only, {name} has {each.draw}; use SGD and GateSGD"
            )
        if not weight.requires_grad:
            raise ValueError(
                f"GatedSGD moves weights and gates together, but {name} is frozen; use SGD and GateSGD"
            )
        if isinstance(model, nn.parallel.DistributedDataParallel) and each.gate.requires_grad:
            raise ValueError(
                "the model is wrapped in DistributedDataParallel; build GatedSGD first, then wrap it"
            )
        each.whole = True
        each.gate.requires_grad_(False)
        if small:
            each.gate.data = each.gate.data.half()


def _check(*numbers: float) -> None:
    lr, momentum, weight_decay, gate_lr, gate_momentum = numbers
    if not (min(lr, weight_decay, gate_lr) >= 0 and 0 <= momentum < 1 and 0 <= gate_momentum < 1):
        raise ValueError(
            "learning rates and decay are zero or more and momenta in [0, 1), got "
            f"lr={lr}, gate_lr={gate_lr}, weight_decay={weight_decay}, {momentum=}, {gate_momentum=}"
        )
