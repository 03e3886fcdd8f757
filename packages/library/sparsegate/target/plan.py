"""The plan of a target: moves the price of gates so that training ends on it."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.gates import ClosedLayer
from sparsegate.price import GatePlan, Moment, Motion, Slope
from sparsegate.schedule import cosine, ramp

from .accuracy_drop import AccuracyDrop
from .count import shift_to, total
from .file_size import FileSize
from .goal import LOOKS, FixedPrice, Goal, WeightCount
from .importance import SQUARES, by_importance, hear_
from .price_path import PricePath, price_at
from .same_target import check_same_target, settings_of
from .target import Found, Target
from .view import ORDER, GatesView

GOALS: dict[str, Callable[[Target, GatesView], Goal]] = {
    "keep": WeightCount,
    "weights": WeightCount,
    "bytes": FileSize,
    "max_drop": AccuracyDrop,
    "price": lambda *_: FixedPrice(),
    "path": lambda *_: FixedPrice(),
}
LOGGER = logging.getLogger(__name__)
AT_ONCE = 0.5  # share of the distance to the budget that the next price makes up for
LASTING = 0.1  # share of it that changes the level of the price for good
HIGHEST = 30.0  # limit of the price near the budget, as a multiple of the mean gradient
FARTHEST = 0.5  # largest distance of a gate from the threshold
ONE_AT = 0.05  # share of weights that is left at which gates travel a distance of one
LISTENING = 0.003  # travel of gates that follow the loss, for a network of all weights
LONGEST = 10.0  # travel for the fewest weights, and under a fixed price
HEARD = 0.1  # of the training: for so long a mean of squared gradients remembers them
INTERVAL = 10  # steps between two changes of the price; fewer in short trainings
RUNNING = ("_grad_sum", "_num_measured", "_price", "_level", "_price_sum", "_distance_sum")


class TargetPlan(GatePlan):
    """Knows where a training with a target stands, and moves the price.

    The price is a dual variable. Every few steps, a bisection on the gates finds how far all of
    them would have to move so that the scheduled number is open. The price of the next steps makes
    up for a part of that distance, or for all of it if it is far. Nothing of this waits for a GPU.
    The unit of movement is the mean absolute gradient of a gate in the dense phase, so the
    network's size and the loss's scale do not matter.

    Args:
        model: The gated model.
        target: What training should end on.
        steps: The number of steps of the whole training.
        judge: Returns the model's validation accuracy in percent; only `max_drop` needs it.
        momentum: The gates' momentum.
        names: The gated weights that the plan moves; all unless given.
    """

    _grad_sum: Tensor
    _num_measured: Tensor
    _price: Tensor
    _level: Tensor
    _price_sum: Tensor
    _distance_sum: Tensor

    def __init__(
        self,
        model: nn.Module,
        target: Target,
        *,
        steps: int,
        judge: Callable[[], float] | None,
        momentum: float,
        names: Collection[str] | None = None,
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps is the number of steps of the whole training, got {steps}")
        self.target, self.steps, self._momentum = target, steps, momentum
        self._view = GatesView(model, judge, names)
        self._gates = list(self._view.gates.values())
        self._goal = GOALS[target.wish](target, self._view)
        self._num_gates = self._view.num_gates()
        self._interval = max(1, min(INTERVAL, steps // 100))
        self.done, self.frozen = 0, False
        self._memory: Sequence[dict[str, Any]] = []
        self._unit = 0.0  # mean absolute gradient of a gate; known after the dense phase
        self._units: list[float] = []  # the same for every layer
        device = total([self._gates[0].gate.detach().sum()]).device
        self._still = torch.zeros((), device=device)
        # On the device, so that nothing waits for it. The price is a slowly changing level and
        # what the moment needs.
        for name in RUNNING:
            setattr(self, name, torch.zeros((), device=device))
        self._layer_grad_sums = torch.zeros(len(self._gates), device=device)
        self._path = PricePath(target, device)
        self._view.announce_(self._awaited)

    @property
    def progress(self) -> float:
        """The fraction of training that is done."""
        return self.done / self.steps

    @property
    def price(self) -> float:
        """The price of this moment, in nats."""
        return float(self._price)

    @property
    def found(self) -> Found:
        """What the target has led to so far."""
        price = float(self._price_sum / self._distance_sum.clamp_min(1e-30))
        num_open, path = self._view.num_open(), self._path.prices()
        return Found(
            str(self.target),
            num_open,
            self._num_gates,
            price,
            path,
            self.frozen,
            self._travel,
            self._grades,
        )

    @property
    def is_dense(self) -> bool:
        """Whether gates have not begun to move."""
        return self.progress < self.target.begin

    @property
    def _is_look(self) -> bool:
        """Whether it is time for something expensive."""
        return self.done % max(1, self.steps // LOOKS) == 0

    @property
    def _follows(self) -> bool:
        """Whether the order of the gates is to be taken anew."""
        return self.target.follow and self._is_look

    def motion(self, moment: Moment) -> Motion | None:
        """How gates move in this step; None once the mask is frozen."""
        if self._goal.wants_mean:
            self._view.mean.keep_in(moment.memory[0])
        if self.frozen:
            for memory in moment.memory:
                memory.pop(ORDER, None)
                memory.pop(SQUARES, None)
            return None
        self._memory = moment.memory
        if self.target.listen and (self.is_dense or self.target.follow):
            hear_(self._gates, moment, HEARD * self.steps if self.target.follow else math.inf)
        still = [Slope(0.0, 0.0)] * len(self._gates)
        if self.is_dense:
            self._measure(moment)
            return Motion([0.0] * len(self._gates), still, self._still)
        if not self._unit:
            self._unit, self._units = self._measured()
        distance = self._distance(moment.lr)
        self._change_price(distance)
        if self.progress >= self.target.reach - (self.target.reach - self.target.begin) / 4:
            self._price_sum += self._price * distance
            self._distance_sum += distance
        self._path.add(self._price, distance, self.progress)
        rates = [distance / unit * (1 - self._momentum) for unit in self._units]
        return Motion(rates, still, self._price * (distance / self._unit / self._num_gates))

    def after_step(self) -> None:
        """Counts the step, and makes the cuts when they are due."""
        was_dense = self.is_dense
        self.done += 1
        self._put_in_order(first=was_dense)
        if self._goal.wants_mean:
            self._view.mean.add()
        looks, fewer = self._is_look, None
        if self.frozen and looks:
            fewer = self._goal.spare(self._view, self.progress)
        elif looks:
            self._goal.look(self._view, self.progress)
        if not self.frozen and self.progress >= self.target.freeze:
            self._cut()
        if self.done == self.steps:
            fewer = self._goal.end(self._view)
        if fewer is not None:
            self._view.close_(self._view.masks(fewer))
        if looks:
            self._view.mean.forget()

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold, as plain values."""
        return {
            "asked": settings_of(self.target, self.steps),
            "done": self.done,
            "frozen": self.frozen,
            "push": self._unit,
            "pushes": self._units,
            "heard_of_each": self._layer_grad_sums.tolist(),
            "running": torch.stack([getattr(self, name) for name in RUNNING]).tolist(),
            "path": self._path.state(),
            "goal": self._goal.state(),
            "averaged": self._view.mean.count,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned.

        Raises:
            ValueError: If it is the state of another target.
        """
        check_same_target(state, self.target, self.steps)
        device = self._still.device
        self.done, self.frozen, self._unit = state["done"], state["frozen"], state["push"]
        self._view.is_cut = self.frozen
        for name, value in zip(RUNNING, state["running"], strict=True):
            setattr(self, name, torch.tensor(value, device=device))
        self._path.load(state["path"])
        self._units = state["pushes"]
        self._layer_grad_sums = torch.tensor(state["heard_of_each"], device=device)
        self._goal.load(state["goal"])
        self._view.mean.count = state.get("averaged", 0)
        self._view.announce_("" if self.frozen else self._awaited)

    @property
    def _awaited(self) -> str:
        """The target and its moment, for a warning of `finish`."""
        cut = math.ceil(self.target.freeze * self.steps)
        return f"{self.target} at step {cut:,} of {self.steps:,}"

    def _distance(self, lr: float) -> float:
        """How far a gate with an average gradient travels in this step."""
        span = self.target.freeze - self.target.begin
        travel = lr * self._travel / self.steps
        return travel * cosine(self.progress - self.target.begin, until=span)

    @property
    def _travel(self) -> float:
        """How far a gate with an average gradient travels in all of training.

        Few weights need gates that learn much; many are chosen well by their size alone, and gates
        that travel far would only lose them again.
        """
        if self.target.travel is not None:
            return self.target.travel
        left = self._goal.aimed()
        if left is None:
            return LONGEST
        times_smaller = self._num_gates / max(left, 1.0)
        if self.target.listen and self.target.follow:
            return min(LONGEST, LISTENING * times_smaller)
        return min(LONGEST, math.sqrt(ONE_AT * times_smaller))

    @property
    def _grades(self) -> bool:
        """Whether gates are put in the order of their weights at `begin`."""
        target = self.target
        if target.grade is None:
            chosen = target.travel is None and not target.listen
            return chosen and self._goal.aimed() is not None
        return target.grade

    def _put_in_order(self, *, first: bool) -> None:
        """Puts gates in the order of the loss or of their weights, if one is wanted now."""
        if self.is_dense or self.frozen or not (first or self._follows):
            return
        memory = self._memory
        if self.target.listen:
            self._view.put_(by_importance([each[SQUARES] for each in memory]), memory)
        elif self._grades:
            self._view.put_(self._view.by_size(memory, first=first), memory)

    def _measure(self, moment: Moment) -> None:
        """Measures the loss's gradients for gates in the dense phase."""
        is_due = self.done % self._interval == 0
        grads = moment.gradients() if is_due else ()
        present = [grad for grad in grads if grad is not None]
        if is_due and present:
            self._grad_sum += total(grad.abs().sum() for grad in present) / self._num_gates
            sizes = [gate.gate.numel() for gate in self._gates]
            self._layer_grad_sums += torch.stack(
                [
                    self._still if grad is None else total([grad.abs().sum()]) / size
                    for grad, size in zip(grads, sizes, strict=True)
                ]
            )
            self._num_measured += 1

    def _measured(self) -> tuple[float, list[float]]:
        """The mean absolute gradient of a gate, and the unit of movement of every layer."""
        unit = float(self._grad_sum / self._num_measured.clamp_min(1))
        if not 0 < unit < float("inf"):
            raise ValueError(
                f"the mean gradient of gates was {unit} in the dense phase; "
                "do the loss's gradients reach the gates?"
            )
        layers = (self._layer_grad_sums / self._num_measured.clamp_min(1)).tolist()
        return unit, [
            unit * (layer / unit) ** self.target.evenly if layer > 0 else unit for layer in layers
        ]

    def _change_price(self, distance: float) -> None:
        if self.target.price is not None:
            over = (self.target.reach - self.target.begin) / 2
            share = ramp(self.progress - self.target.begin, over=over)
            self._price.fill_(self.target.price * share)
        elif self.target.path is not None:
            self._price.fill_(price_at(self.target.path, self.target, self.progress))
        elif self.done % self._interval == 0:
            balance = self._unit * self._num_gates  # the price that balances the mean gradient
            budget = self._goal.budget(self.progress + self._interval / self.steps)
            # How far a price of one unit moves gates until the next change.
            way = max(distance, 1e-12) * self._interval
            missing = shift_to(self._gates, budget, at_most=max(FARTHEST, HIGHEST * way))
            missing, highest = missing / way * balance, HIGHEST * balance
            # Far from the budget, all gates go there at once; nothing is learned about the price.
            # A budget that rises may open gates by a price below zero.
            may_rise = self._goal.may_rise
            far = (missing.abs() if may_rise else missing) > highest
            level = (self._level + LASTING * missing).clamp(0.0, highest)
            near = (level + AT_ONCE * missing).clamp(-highest if may_rise else 0.0, highest)
            self._price = torch.where(far, missing, near)
            self._level = torch.where(far, self._level, level)

    def _cut(self) -> None:
        """Makes the exact cut, which freezes the mask."""
        if closed := self._view.closed():
            warnings.warn(
                f"every gate of {', '.join(closed)} had closed; one weight of each such layer was "
                "opened again, which leaves little more than its bias; ask for more weights, or "
                "leave the layer out: Select(skip=...)",
                ClosedLayer,
                stacklevel=2,
            )
        self._view.close_(self._view.masks(self._goal.final(self._view)))
        self.frozen = self._view.is_cut = True
        self._view.announce_("")
        LOGGER.info("the mask is frozen at step %s: %s", f"{self.done:,}", self.found)
