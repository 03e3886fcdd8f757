"""The gates' optimiser: adds the price, moves the gates with momentum, and clips them to [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from sparsegate.fused import can_go_fast, move_gates_in_one_pass
from sparsegate.gates import require_gates
from sparsegate.penalty import Penalty, Slope


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
    """

    def __init__(
        self, model: nn.Module, *, lr: float = 1.0, momentum: float = 0.9, penalty: Penalty | None = None
    ) -> None:
        if not (lr >= 0 and 0 <= momentum < 1):
            raise ValueError(f"lr is zero or more and momentum in [0, 1), got lr={lr}, momentum={momentum}")
        self.penalty = penalty or Penalty()
        params = [each.gate for each in require_gates(model).values()]
        super().__init__(params, {"lr": lr, "momentum": momentum, "price": 1.0})

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

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Moves every gate once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = group["params"]
            slopes = self.penalty.slopes([param.numel() for param in params])
            moving = [(param, slope) for param, slope in zip(params, slopes, strict=True) if param.requires_grad]
            if moving:
                self._move(moving, group["lr"], group["momentum"], group["price"])
        return loss

    def _move(self, moving: list[tuple[Tensor, Slope]], lr: float, momentum: float, price: float) -> None:
        left = []
        for param, slope in moving:
            gate, speed = _local(param), _local(self._speed(param))
            grad = None if param.grad is None else _local(param.grad)
            if can_go_fast(gate, speed, gate if grad is None else grad):
                move_gates_in_one_pass(gate, speed, grad, lr, momentum, slope.times(price))
            else:
                left.append((param, slope))
        if left:
            self._move_plainly(left, lr, momentum, price)

    def _move_plainly(self, moving: list[tuple[Tensor, Slope]], lr: float, momentum: float, price: float) -> None:
        params = [param for param, _ in moving]
        values = [_local(param) for param in params]
        speeds = [_local(self._speed(param)) for param in params]
        torch._foreach_mul_(speeds, momentum)
        pushed = [(speed, param.grad) for speed, param in zip(speeds, params, strict=True) if param.grad is not None]
        if pushed:
            torch._foreach_add_([speed for speed, _ in pushed], [_local(grad) for _, grad in pushed])
        torch._foreach_add_(speeds, [price * slope.base for _, slope in moving])
        if price * self.penalty.bimodal:
            torch._foreach_add_(speeds, torch._foreach_mul(values, [price * slope.tilt for _, slope in moving]))
        torch._foreach_add_(values, speeds, alpha=-lr)
        for value in values:
            value.clamp_(0.0, 1.0)  # one pass; there is no foreach form with both bounds

    def _speed(self, param: Tensor) -> Tensor:
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param)
        speed: Tensor = state["momentum_buffer"]
        return speed


def _local(tensor: Tensor) -> Tensor:
    """The part on this process of a sharded tensor: every operation here is element by element."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
