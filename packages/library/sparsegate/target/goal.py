"""CONTRACT Goal: how many gates are to be open, at each moment and in the end."""

from __future__ import annotations

import abc
from collections.abc import Callable

from .target import Target

LOOKS = 50  # in a training


class View(abc.ABC):
    """What a goal may ask about the gates."""

    @abc.abstractmethod
    def num_layers(self) -> int:
        """How many weights have gates."""

    @abc.abstractmethod
    def num_gates(self) -> int:
        """How many gates there are."""

    @abc.abstractmethod
    def num_open(self) -> int:
        """How many gates are open now."""

    @abc.abstractmethod
    def bytes_of(self, count: int) -> int:
        """Bytes of the network's file if it were cut to this many weights now."""

    @abc.abstractmethod
    def accuracy_of(self, count: int) -> float:
        """Validation accuracy in percent if the network were cut to this many weights now."""

    @abc.abstractmethod
    def accuracy(self) -> float:
        """Validation accuracy in percent; of the mean of recent weights if the goal wants it."""

    @abc.abstractmethod
    def settle_(self) -> None:
        """Replaces the weights by their recent mean if it is better, in place; ends the mean."""


class Goal(abc.ABC):
    """A target's wish as a number of open gates, which may change during training."""

    may_rise = False
    """Whether the budget may rise again, so that a price below zero opens gates."""

    wants_mean = False
    """Whether accuracy is measured with the mean of the weights since the last look."""

    @abc.abstractmethod
    def budget(self, progress: float) -> float:
        """How many gates are to be open at this moment."""

    @abc.abstractmethod
    def final(self, view: View) -> int:
        """How many weights the exact cut leaves."""

    def aimed(self) -> float | None:
        """How many weights will be left, as far as is known."""
        return None

    def look(self, view: View, progress: float) -> None:
        """Called about fifty times in a training, before the cut, for expensive measurements."""

    def spare(self, view: View, progress: float) -> int | None:
        """Called after the cut as `look` was before: how many weights the next cut leaves."""
        return None

    def end(self, view: View) -> int | None:
        """Called after the last step: how many weights a second cut leaves; None for no cut."""
        return None

    def state(self) -> list[float]:
        """What a checkpoint must hold."""
        return []

    def load(self, state: list[float]) -> None:
        """Restores what `state` returned."""


class WeightCount(Goal):
    """A fixed number, or fraction, of weights."""

    def __init__(self, target: Target, view: View) -> None:
        self._target = target
        self._start = float(view.num_open())
        self.count = _checked(target, view.num_gates(), view.num_layers())

    def budget(self, progress: float) -> float:
        """Falls to the number asked for."""
        end = float(self.count)
        return falling(self._target, progress, start=max(self._start, end), end=end)

    def final(self, view: View) -> int:
        """The number asked for."""
        return self.count

    def aimed(self) -> float:
        """The number asked for."""
        return float(self.count)

    def state(self) -> list[float]:
        """Where the fall began: a resumed model has fewer open gates when its goal is made."""
        return [self._start]

    def load(self, state: list[float]) -> None:
        """Restores it."""
        (self._start,) = state


class FixedPrice(Goal):
    """The weights that a fixed price, or a path of prices, leaves."""

    def budget(self, progress: float) -> float:
        """Never asked for: the price does not follow a budget."""
        raise AssertionError("a fixed price follows no budget")

    def final(self, view: View) -> int:
        """As many weights as are open."""
        return max(view.num_open(), view.num_layers())


def falling(target: Target, progress: float, *, start: float, end: float) -> float:
    """Falls from `start` at `begin` to `end` at `reach`, steeply at first.

    The last weights matter most, so the fall slows down towards the end.

    >>> target = Target(begin=0.2, reach=0.6)
    >>> [round(falling(target, at, start=1000.0, end=10.0)) for at in (0.1, 0.4, 0.6)]
    [1000, 134, 10]
    >>> target = Target(keep=0.01, begin=0.2, reach=0.6, fall="factor")
    >>> round(falling(target, 0.4, start=1000.0, end=10.0))
    100
    """
    done = (progress - target.begin) / (target.reach - target.begin)
    if target.fall == "factor":
        left: float = 1 - min(1.0, max(0.0, done))
        return float(end * (start / end) ** left)
    return fall(done, start=start, end=end, power=3)


def fall(done: float, *, start: float, end: float, power: int) -> float:
    """Falls from `start` at zero to `end` at one, by a power of what is left of the way.

    >>> [fall(done, start=9.0, end=1.0, power=2) for done in (-1.0, 0.5, 2.0)]
    [9.0, 3.0, 1.0]
    """
    return float(end + (start - end) * (1 - min(1.0, max(0.0, done))) ** power)


def largest(fits: Callable[[int], bool], low: int, high: int, *, tries: int) -> int:
    """The largest number from `low` to `high` found to fit in this many tries; `low` if none is.

    Bisects at the geometric mean, because numbers of weights differ by factors.

    >>> largest(lambda number: number <= 700, 1, 100_000, tries=30)
    700
    """
    while tries and low < high:
        middle = min(high, max(low + 1, round((low * high) ** 0.5)))
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
        tries -= 1
    return low


def smallest(fits: Callable[[int], bool], low: int, high: int, *, tries: int) -> int:
    """The smallest number from `low` to `high` found to fit in this many tries; `high` if none is.

    >>> smallest(lambda number: number >= 700, 1, 100_000, tries=30)
    700
    """
    while tries and low < high:
        middle = max(low, min(high - 1, round((low * high) ** 0.5)))
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
        tries -= 1
    return high


def _checked(target: Target, num_gates: int, num_layers: int) -> int:
    """The number of weights asked for, which must be possible."""
    count = target.weights
    if count is None:
        assert isinstance(target.keep, float | int)  # groups have a plan of their own each
        count = round(target.keep * num_gates)
    asked = f"{target} of {num_gates:,} gated weights"
    if count < num_layers:
        raise ValueError(
            f"{asked} leaves {count}, fewer than one in each of the {num_layers} layers; "
            f"the least is weights={num_layers}, which is keep={num_layers / num_gates:.2g}"
        )
    if count > num_gates:
        raise ValueError(f"{asked} are more than there are; the most is weights={num_gates}")
    return count
