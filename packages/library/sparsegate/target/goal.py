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
        """Bytes of the network's file, if it were cut to so many weights now."""

    @abc.abstractmethod
    def accuracy_of(self, count: int) -> float:
        """Validation accuracy in per cent, if the network were cut to so many weights now."""

    @abc.abstractmethod
    def accuracy(self) -> float:
        """Validation accuracy of the network as it is."""


class Goal(abc.ABC):
    """A wish, as a number of open gates that may change as training goes on."""

    @abc.abstractmethod
    def budget(self, progress: float) -> float:
        """How many gates are to be open at this moment."""

    @abc.abstractmethod
    def final(self, view: View) -> int:
        """How many weights the exact cut leaves."""

    def look(self, view: View, progress: float) -> None:
        """Called some fifty times in a training, before the cut: the place for what costs more than a step."""

    def end(self, view: View) -> int | None:
        """Called after the last step: how many weights to cut to once more; none unless needed."""
        return None

    def state(self) -> list[float]:
        """What must be remembered in a checkpoint."""
        return []

    def load(self, state: list[float]) -> None:
        """Takes back what `state` gave."""


def falling(target: Target, progress: float, *, start: float, end: float) -> float:
    """From `start` at `begin` to `end` at `reach`: fast at first, since the last weights are the dear ones.

    >>> [round(falling(Target(begin=0.2, reach=0.6), at, start=1000.0, end=10.0)) for at in (0.1, 0.4, 0.6)]
    [1000, 134, 10]
    >>> round(falling(Target(keep=0.01, begin=0.2, reach=0.6, fall="factor"), 0.4, start=1000.0, end=10.0))
    100
    """
    left = 1 - min(1.0, max(0.0, (progress - target.begin) / (target.reach - target.begin)))
    return end * (start / end) ** left if target.fall == "factor" else end + (start - end) * left**3


def largest(fits: Callable[[int], bool], low: int, high: int, *, tries: int) -> int:
    """The largest number from `low` to `high` that is known to fit after so many tries; `low` if none is.

    The middle is the geometric one: numbers of weights differ by factors.

    >>> largest(lambda number: number <= 700, 1, 100_000, tries=30)
    700
    """
    while tries and low < high:
        middle = min(high, max(low + 1, round((low * high) ** 0.5)))
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
        tries -= 1
    return low


def smallest(fits: Callable[[int], bool], low: int, high: int, *, tries: int) -> int:
    """The smallest number from `low` to `high` that is known to fit after so many tries; `high` if none is.

    >>> smallest(lambda number: number >= 700, 1, 100_000, tries=30)
    700
    """
    while tries and low < high:
        middle = max(low, min(high - 1, round((low * high) ** 0.5)))
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
        tries -= 1
    return high
