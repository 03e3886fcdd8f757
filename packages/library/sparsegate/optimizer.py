"""The gates' optimiser: adds the price, moves the gates with momentum, and clips them to [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsegate.fused import can_go_fast, move_gates_in_one_pass
from sparsegate.gates import require_gates
from sparsegate.price import Penalty, Slope
from sparsegate.sharded import local
from sparsegate.target import Control, Found, Motion, Target, place_


class GateSGD(Optimizer):
    """SGD with momentum on a model's gates, which pays their price and keeps them in [0, 1].

    >>> from sparsegate.gates import gate
    >>> model = gate(nn.Linear(2, 2))
    >>> gates = GateSGD(model, lr=0.5, penalty=Penalty(count=2.0))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> gates.step()

    Clipping happens after the step, never in the forward pass, where it would leave clipped gates without a gradient.
    torch's learning-rate schedulers work on it. `gates.price = ramp(step / steps, over=0.5)` raises the price over
    training; the factor is part of the state dict. A gate without a gradient still pays its price; one with
    `requires_grad=False` does not move.

    With a `target` it finds the price itself, in the `steps` that training has: `lr` is then a factor on the way that
    gates can go (1 is right), and `print(gates.found)` shows what was found. `judge` gives the validation accuracy of
    the model in per cent, the same on every process; only `max_drop` asks for it.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float = 1.0,
        momentum: float = 0.9,
        penalty: Penalty | None = None,
        target: Target | None = None,
        steps: int | None = None,
        judge: Callable[[], float] | None = None,
    ) -> None:
        if not (lr >= 0 and 0 <= momentum < 1):
            raise ValueError(
                f"lr is zero or more and momentum in [0, 1), got lr={lr}, momentum={momentum}"
            )
        self.penalty = penalty or Penalty()
        found = require_gates(model).values()
        if any(each.whole for each in found):
            raise ValueError(
                "GatedSGD has taken these gates over, and they get no gradients; gate a fresh model"
            )
        params = [each.gate for each in found]
        super().__init__(params, {"lr": lr, "momentum": momentum, "price": 1.0})
        self.control: Control | None = None
        if target and penalty is not None:
            raise ValueError(
                "a target finds the price itself; leave penalty out, or hold a price: Target(price=...)"
            )
        if target and steps is None:
            raise ValueError("a target needs steps=, the number of steps in the whole training")
        if target and steps is not None:
            self.aim(model, target, steps=steps, judge=judge)

    def aim(
        self,
        model: nn.Module,
        target: Target,
        *,
        steps: int,
        judge: Callable[[], float] | None = None,
    ) -> None:
        """Gives a target to an optimiser that has none yet, before the first step."""
        momentum = self.param_groups[0]["momentum"]
        self.control = Control(model, target, steps=steps, judge=judge, momentum=momentum)

    @property
    def found(self) -> Found:
        """The price that the target has led to, and what is left."""
        if self.control is None:
            raise ValueError("nothing was to be found: give GateSGD a target")
        return self.control.found

    @property
    def price(self) -> float:
        """The factor on the penalty at this moment, 1 unless set."""
        return float(self.param_groups[0]["price"])

    @price.setter
    def price(self, factor: float) -> None:
        for group in self.param_groups:
            group["price"] = factor

    @property
    def gate_lr(self) -> float:
        """The learning rate at this moment."""
        return float(self.param_groups[0]["lr"])

    @gate_lr.setter
    def gate_lr(self, lr: float) -> None:
        for group in self.param_groups:
            group["lr"] = lr

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Asks torch's GradScaler to call `step` when it skips one, too: a target counts all steps of training."""
        return self.control is not None

    def _is_skipped(self) -> bool:
        """Whether a GradScaler found gradients that are no numbers, which go; others are brought to their true size."""
        if bool(getattr(self, "found_inf", False)):
            self.zero_grad()
            return True
        if (scale := getattr(self, "grad_scale", None)) is not None:
            for param in self.param_groups[0]["params"]:
                if param.grad is not None:
                    local(param.grad).div_(scale)
        return False

    def __getstate__(self) -> dict[str, Any]:
        # For copy.deepcopy and pickle: torch's own leaves out what it does not know of.
        return super().__getstate__() | {"penalty": self.penalty, "control": self.control}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Moves every gate once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.control is not None:
            if not self._is_skipped():
                self._follow(self.control, self.param_groups[0])
            self.control.advance()
            return loss
        for group in self.param_groups:
            params = group["params"]
            slopes = self.penalty.slopes([param.numel() for param in params])
            moving = [
                (param, slope)
                for param, slope in zip(params, slopes, strict=True)
                if param.requires_grad
            ]
            if moving:
                self._move(moving, group["lr"], group["momentum"], group["price"])
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state of gates and price."""
        if self.control is not None:
            self.param_groups[0]["control"] = self.control.state()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave, by an optimiser with a target if this one has one."""
        control = state_dict["param_groups"][0].get("control")
        if (control is None) != (self.control is None):
            raise ValueError(
                "one of the two, this optimiser and the one that was saved, has a target, the other none"
            )
        super().load_state_dict(state_dict)
        if self.control is not None and control is not None:
            self.control.load(control)

    def _follow(self, control: Control, group: dict[str, Any]) -> None:
        """Moves every gate once on the way to a target."""
        params = group["params"]
        if control.listens:
            self._hear(params)
        elif control.places:
            place_(params, [self.state[param].pop("heard") for param in params])
        motion = control.motion(group["lr"])
        if not control.frozen:
            speeds = self._pushed(params, group["momentum"])
            if motion is not None:
                _shift_([local(param) for param in params], speeds, motion)

    def _move(
        self, moving: list[tuple[Tensor, Slope]], lr: float, momentum: float, price: float
    ) -> None:
        left = []
        for param, slope in moving:
            gate, speed = local(param), local(self._speed(param))
            grad = None if param.grad is None else local(param.grad)
            if can_go_fast(gate, speed, gate if grad is None else grad):
                move_gates_in_one_pass(gate, speed, grad, lr, momentum, slope.times(price))
            else:
                left.append((param, slope))
        if left:
            self._move_plainly(left, lr, momentum, price)

    def _move_plainly(
        self, moving: list[tuple[Tensor, Slope]], lr: float, momentum: float, price: float
    ) -> None:
        params = [param for param, _ in moving]
        values = [local(param) for param in params]
        speeds = self._pushed(params, momentum)
        torch._foreach_add_(speeds, [price * slope.base for _, slope in moving])
        if price * self.penalty.bimodal:
            torch._foreach_add_(
                speeds, torch._foreach_mul(values, [price * slope.tilt for _, slope in moving])
            )
        torch._foreach_add_(values, speeds, alpha=-lr)
        for value in values:
            value.clamp_(0.0, 1.0)  # one pass; there is no foreach form with both bounds

    def _pushed(self, params: list[Tensor], momentum: float) -> list[Tensor]:
        """The gates' speeds after the loss's push."""
        speeds = [local(self._speed(param)) for param in params]
        torch._foreach_mul_(speeds, momentum)
        pushed = [
            (speed, param.grad)
            for speed, param in zip(speeds, params, strict=True)
            if param.grad is not None
        ]
        if pushed:
            torch._foreach_add_([speed for speed, _ in pushed], [local(grad) for _, grad in pushed])
        return speeds

    def _hear(self, params: list[Tensor]) -> None:
        """Adds the squares of the loss's pushes to what was heard before."""
        for param in params:
            heard = self._kept(param, "heard")
            if param.grad is not None:
                local(heard).addcmul_(local(param.grad), local(param.grad))

    def _speed(self, param: Tensor) -> Tensor:
        return self._kept(param, "momentum_buffer")

    def _kept(self, param: Tensor, name: str) -> Tensor:
        """What the state has under a name for a gate, zero at first."""
        state = self.state[param]
        if name not in state:
            state[name] = torch.zeros_like(param)
        kept: Tensor = state[name]
        return kept


def _shift_(values: list[Tensor], speeds: list[Tensor], motion: Motion) -> None:
    for value, speed, rate in zip(values, speeds, motion.rates, strict=True):
        value.add_(speed, alpha=-rate)
    for value in values:
        value.sub_(motion.shift).clamp_(0.0, 1.0)
