"""Moves the price of gates so that training ends on a target."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sparsegate.gates import ClosedLayer
from sparsegate.schedule import cosine, ramp

from .accuracy_drop import Drop
from .count import num_true, shift_to, total
from .file_size import FileSize
from .fixed_price import Held
from .found import Found
from .goal import LOOKS, Goal
from .price_path import Path, at
from .target import Target
from .view import OPEN_ABOVE, GatesView
from .weight_count import Number

GOALS: dict[str, Callable[[Target, GatesView], Goal]] = {
    "keep": Number,
    "weights": Number,
    "bytes": FileSize,
    "max_drop": Drop,
    "price": lambda *_: Held(),
    "path": lambda *_: Held(),
}
AT_ONCE, LASTING = (
    0.5,
    0.1,
)  # shares of the distance to the budget that the next price makes up for, and later ones
HIGHEST = 30.0  # the price's limit near the budget, as a multiple of the average push of the loss
FARTHEST = 0.5  # by which a gate can be away from the edge
INTERVAL = 10  # steps between two changes of the price; fewer in short trainings


class Motion(NamedTuple):
    """How gates move in one step."""

    rates: list[float]
    """Learning rate of every layer."""
    shift: Tensor
    """By how much the price lowers every gate."""


class Control:
    """Knows where a training with a target stands, and moves the price.

    The price is a dual variable. Every few steps a bisection on the gates finds by how much all of them would have to
    move so that the scheduled number is open; the price of the next steps makes up for a part of that, or for all of it
    where it is far. Nothing of this waits for a GPU. The unit of movement is the average push of the loss on a gate in
    the dense phase, so that the network's size and the loss's scale do not matter.
    """

    def __init__(
        self,
        model: nn.Module,
        target: Target,
        *,
        steps: int,
        judge: Callable[[], float] | None,
        momentum: float,
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps is the number of steps in the whole training, got {steps}")
        self.target, self.steps, self._momentum = target, steps, momentum
        self._view = GatesView(model, judge)
        self._gates = list(self._view.gates.values())
        if any(not each.gate.requires_grad for each in self._gates):
            raise ValueError(
                "a target moves all gates; leave layers out with Select(skip=...), not requires_grad=False"
            )
        self._goal = GOALS[target.wish](target, self._view)
        self._num_gates = self._view.num_gates()
        self._interval = max(1, min(INTERVAL, steps // 100))
        self.done, self.frozen = 0, False
        self._push = 0.0  # of the loss on a gate, on average; known after the dense phase
        self._pushes: list[float] = []  # the same of every layer
        device = total([self._gates[0].gate.detach().sum()]).device
        # On the device, so that nobody waits. The price is its slow part, the level, and what the moment needs.
        self._heard, self._listened, self._price, self._level, self._sum, self._weight = (
            torch.zeros((), device=device) for _ in range(6)
        )
        self._path = Path(target, device)
        self._heard_of_each = torch.zeros(len(self._gates), device=device)

    @property
    def progress(self) -> float:
        """The fraction of training that is behind."""
        return self.done / self.steps

    @property
    def price(self) -> float:
        """The price of this moment, in nats."""
        return float(self._price)

    @property
    def found(self) -> Found:
        """What the target has led to so far."""
        asked = f"{self.target.wish}={getattr(self.target, self.target.wish)}"
        price = float(self._sum / self._weight.clamp_min(1e-30))
        return Found(
            asked, self._view.num_open(), self._num_gates, price, self._path.prices(), self.frozen
        )

    @property
    def listens(self) -> bool:
        """Whether it wants to hear what the loss says about every gate."""
        return self.target.listen and self.progress < self.target.begin

    @property
    def places(self) -> bool:
        """Whether this is the moment at which gates take the places that what was heard gives them."""
        return self.target.listen and not self.listens and not self._push

    def motion(self, lr: float) -> Motion | None:
        """How gates move in this step; none while they stand still."""
        if self.frozen or self.progress < self.target.begin:
            return None
        if not self._push:
            self._push, self._pushes = self._measured()
        span = self.target.freeze - self.target.begin
        distance = (
            lr
            * self.target.travel
            / self.steps
            * cosine(self.progress - self.target.begin, until=span)
        )
        self._change_price(distance)
        if self.progress >= self.target.reach - (self.target.reach - self.target.begin) / 4:
            self._sum += self._price * distance
            self._weight += distance
        self._path.take(self._price, distance, self.progress)
        unit = distance / self._push
        rates = [distance / push * (1 - self._momentum) for push in self._pushes]
        return Motion(rates, self._price * (unit / self._num_gates))

    def advance(self) -> None:
        """Called at the end of every step."""
        if not self.frozen and self.progress < self.target.begin:
            self._listen()
        self.done += 1
        if not self.frozen and self.done % max(1, self.steps // LOOKS) == 0:
            self._goal.look(self._view, self.progress)
        if not self.frozen and self.progress >= self.target.freeze:
            self._cut()
        if self.done == self.steps and (fewer := self._goal.end(self._view)) is not None:
            self._view.close_(self._view.masks(fewer))

    def state(self) -> dict[str, Any]:
        """What must be remembered in a checkpoint, as plain values."""
        running = (self._heard, self._listened, self._price, self._level, self._sum, self._weight)
        return {
            "done": self.done,
            "frozen": self.frozen,
            "push": self._push,
            "pushes": self._pushes,
            "heard_of_each": self._heard_of_each.tolist(),
            "running": torch.stack(running).tolist(),
            "path": self._path.state(),
            "goal": self._goal.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Takes back what `state` gave."""
        self.done, self.frozen, self._push = state["done"], state["frozen"], state["push"]
        self._heard, self._listened, self._price, self._level, self._sum, self._weight = (
            torch.tensor(value, device=self._price.device) for value in state["running"]
        )
        self._path.load(state["path"])
        self._pushes = state["pushes"]
        self._heard_of_each = torch.tensor(state["heard_of_each"], device=self._price.device)
        self._goal.load(state["goal"])

    def _listen(self) -> None:
        """Measures the loss's average push on a gate, now and then."""
        grads = [each.gate.grad for each in self._gates if each.gate.grad is not None]
        if grads and self.done % self._interval == 0:
            self._heard += total(grad.abs().sum() for grad in grads) / self._num_gates
            self._heard_of_each += torch.stack([_mean_size(each.gate) for each in self._gates])
            self._listened += 1

    def _measured(self) -> tuple[float, list[float]]:
        """The average push, and the unit of every layer."""
        push = float(self._heard / self._listened.clamp_min(1))
        if not 0 < push < float("inf"):
            raise ValueError(
                f"the loss pushed gates by {push} in the dense phase; do its gradients reach the gates?"
            )
        each = (self._heard_of_each / self._listened.clamp_min(1)).tolist()
        return push, [
            push * (own / push) ** self.target.evenly if own > 0 else push for own in each
        ]

    def _change_price(self, distance: float) -> None:
        if self.target.price is not None:
            over = (self.target.reach - self.target.begin) / 2
            self._price.fill_(
                self.target.price * ramp(self.progress - self.target.begin, over=over)
            )
        elif self.target.path is not None:
            self._price.fill_(at(self.target.path, self.target, self.progress))
        elif self.done % self._interval == 0:
            one = self._push * self._num_gates  # the price that balances the average push
            ahead = self.progress + self._interval / self.steps
            way = (
                max(distance, 1e-12) * self._interval
            )  # what a price of one push moves gates until the next change
            missing = shift_to(
                self._gates, self._goal.budget(ahead), at_most=max(FARTHEST, HIGHEST * way)
            )
            missing, highest = missing / way * one, HIGHEST * one
            # Far from the budget all gates go there at once, and nothing is learned about the price.
            far = missing > highest
            level = (self._level + LASTING * missing).clamp(0.0, highest)
            self._price = torch.where(far, missing, (level + AT_ONCE * missing).clamp(0.0, highest))
            self._level = torch.where(far, self._level, level)

    def _cut(self) -> None:
        """Makes the exact cut, from which on the mask stands still."""
        shut = [
            name
            for name, each in self._view.gates.items()
            if num_true([each.gate > OPEN_ABOVE]) == 0
        ]
        if shut:
            warnings.warn(
                f"every gate of {', '.join(shut)} had closed; one weight of each such layer was opened again, which "
                "makes it little more than its bias; ask for more weights, or leave the layer out: Select(skip=...)",
                ClosedLayer,
                stacklevel=2,
            )
        self._view.close_(self._view.masks(self._goal.final(self._view)))
        self.frozen = True


def _mean_size(gate: Tensor) -> Tensor:
    """The average push of this step on the gates of one layer."""
    return (
        total([(torch.zeros_like(gate) if gate.grad is None else gate.grad).abs().sum()])
        / gate.numel()
    )
