"""What gates pay: a penalty, and the plan that decides at every step how gates move."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.gates import require_gates


class Slope(NamedTuple):
    """The gradient of the price as a line over the gate: `base + tilt * gate`."""

    base: float
    tilt: float

    def times(self, factor: float) -> Slope:
        """The slope of the price multiplied by a factor."""
        return Slope(factor * self.base, factor * self.tilt)


@dataclass(frozen=True)
class Penalty:
    """The price of open and undecided gates: `bimodal * mean g(1-g) + count * mean g`.

    >>> Penalty(count=6.0)
    Penalty(count=6.0, bimodal=0.0, per='network')

    Pass it to an optimizer, which adds its gradient to the gates: `GateSGD(model,
    penalty=Penalty(count=6.0))`. Or call it with a gated model and add the result to the loss:
    `loss + penalty(model)`. The gradients are the same.

    The paper sums over gates; the mean makes one constant fit networks of any size.

    Raises:
        ValueError: If a price is negative, infinite or NaN, or `per` is unknown.
    """

    count: float = 2.0
    """Price of weights, in nats: what a fully open network adds to the loss (paper: lambda2)."""

    bimodal: float = 0.0
    """Price of undecided gates, in nats: gates that are all 0.5 add a quarter (paper: lambda1)."""

    per: Literal["network", "layer"] = "network"
    """One mean over all gates, or a sum of one mean per layer, which prices small layers more."""

    def __post_init__(self) -> None:
        if not (0 <= self.count < math.inf and 0 <= self.bimodal < math.inf):
            raise ValueError(
                "prices are finite numbers, zero or more, "
                f"got count={self.count}, bimodal={self.bimodal}"
            )
        if self.per not in ("network", "layer"):
            raise ValueError(f"per is 'network' or 'layer', got {self.per!r}")

    def __call__(self, model: nn.Module) -> Float[Tensor, ""]:
        """Returns the price of a gated model, differentiable in its gates.

        Args:
            model: A model with gates.
        """
        values = [gate.gate for gate in require_gates(model).values()]
        shares = self._shares([value.numel() for value in values])
        prices = [
            share * (self.bimodal * (value * (1 - value)).sum() + self.count * value.sum())
            for value, share in zip(values, shares, strict=True)
        ]
        return torch.stack(prices).sum()

    def slopes(self, sizes: Sequence[int]) -> list[Slope]:
        """Returns the gradient of the price for layers with these numbers of gates.

        >>> Penalty(count=6.0, bimodal=3.0).slopes([1, 2])
        [Slope(base=3.0, tilt=-2.0), Slope(base=3.0, tilt=-2.0)]

        Args:
            sizes: The number of gates of each layer.
        """
        # d/dg [bimodal * g(1-g) + count * g] = bimodal + count - 2 * bimodal * g
        base, tilt = self.bimodal + self.count, -2 * self.bimodal
        return [Slope(share * base, share * tilt) for share in self._shares(sizes)]

    def _shares(self, sizes: Sequence[int]) -> list[float]:
        if self.per == "layer":
            return [1 / size for size in sizes]
        return [1 / sum(sizes)] * len(sizes)


class Moment(NamedTuple):
    """What an optimizer reports to its plan before a step; one entry per gated weight in lists."""

    lr: float
    """The gates' learning rate."""
    price: float
    """The factor on the penalty."""
    gradients: Callable[[], Sequence[Tensor | None]]
    """The gradients of the loss for the gates, computed when called."""
    memory: Sequence[dict[str, Any]]
    """The optimizer's state: tensors that a plan stores here are saved with the optimizer."""


class Motion(NamedTuple):
    """How gates move in one step; one entry per gated weight in lists."""

    rates: Sequence[float]
    """Learning rates. At zero, gates keep their values and only their momentum is updated."""
    slopes: Sequence[Slope]
    """The gradients of the price."""
    shift: Float[Tensor, ""] | None = None
    """A distance by which every gate is lowered after the step, on the gates' device."""
    shifts: Sequence[Float[Tensor, ""] | None] = ()
    """Instead of `shift`, a distance for each gated weight; empty if all have the same."""

    def shift_of(self, index: int) -> Float[Tensor, ""] | None:
        """The distance by which the gates of one weight are lowered."""
        return self.shifts[index] if self.shifts else self.shift


class GatePlan(abc.ABC):
    """CONTRACT: decides at every step of an optimizer how gates move."""

    @abc.abstractmethod
    def motion(self, moment: Moment) -> Motion | None:
        """Called before a step: how gates move in it; None if they are frozen."""

    def after_step(self) -> None:  # noqa: B027 most plans need not know
        """Called after every step, also after one that a GradScaler skipped."""

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint must hold, as plain values; None if there is nothing."""
        return None

    def load(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restores what `state` returned."""


class PenaltyPlan(GatePlan):
    """Gates pay a fixed penalty, multiplied by the optimizer's price factor."""

    def __init__(self, penalty: Penalty, sizes: Sequence[int]) -> None:
        self.penalty = penalty
        self._slopes = penalty.slopes(sizes)

    def motion(self, moment: Moment) -> Motion:
        """The same learning rate for all gates, and the penalty's gradient."""
        slopes = [slope.times(moment.price) for slope in self._slopes]
        return Motion([moment.lr] * len(slopes), slopes)
