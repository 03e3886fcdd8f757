"""Scales of charts: where a value is between the ends, and which values have marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ERRORS = (90, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
FINE = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    50,
)  # between marks where errors hardly differ
FEW, MAX_TICKS = 3, 6
LEAST_LOSS = 1e-5  # a loss of zero has no logarithm


@dataclass(frozen=True)
class AxisScale:
    """A range with marks."""

    ticks: tuple[float | int, ...]
    low: float | int
    high: float | int
    bend: Callable[[float | int], float]
    """Maps values so that equal steps look equal."""

    def share(self, value: float | int) -> float:
        """Returns the position of a value, from 0 at the low end to 1 at the high end.

        >>> counts([10, 1000]).share(100)
        0.5
        """
        low, high = self.bend(self.low), self.bend(self.high)
        return min(1.0, max(0.0, (self.bend(value) - low) / (high - low or 1)))


def counts(values: Sequence[float | int]) -> AxisScale:
    """A logarithmic scale for counts, with marks at 1, 2 and 5 times powers of ten.

    >>> counts([12, 430]).ticks
    (10, 20, 50, 100, 200, 500)
    """
    steps = [factor * 10**power for power in range(13) for factor in (1, 2, 5)]
    found = _between(steps, max(1, min(values)), max(2, *values))
    if len(found) > MAX_TICKS:
        found = _between([10**power for power in range(13)], max(1, min(values)), max(2, *values))
    return AxisScale(tuple(found), found[0], found[-1], lambda value: math.log10(max(1.0, value)))


def losses(values: Sequence[float | int]) -> AxisScale:
    """A logarithmic scale for losses, with marks at 1, 2 and 5 times powers of ten.

    >>> losses([2.3, 0.3]).ticks
    (0.2, 0.5, 1.0, 2.0, 5.0)
    """
    powers = range(-5, 6)
    low, high = (max(LEAST_LOSS, pick(values)) for pick in (min, max))
    found = _between(
        [float(f"{step}e{power}") for power in powers for step in (1, 2, 5)], low, high
    )
    if len(found) > MAX_TICKS:
        found = _between([float(f"1e{power}") for power in powers], low, high)
    return AxisScale(
        tuple(found), found[0], found[-1], lambda value: math.log10(max(LEAST_LOSS, value))
    )


def accuracies(values: Sequence[float | int]) -> AxisScale:
    """A scale for percentages on which halving the error is always the same step.

    >>> accuracies([97.0, 99.3]).ticks
    (95, 98, 99, 99.5)
    >>> accuracies([99.23, 99.45]).ticks
    (99.2, 99.3, 99.4, 99.5)
    """
    low, high = min(values), max(values)
    found = _between([100 - error for error in ERRORS], low, high)
    if len(found) <= FEW:
        found = _fine(low, high)
    ticks = found[:: math.ceil(len(found) / MAX_TICKS)]
    return AxisScale(
        tuple(ticks), found[0], found[-1], lambda value: -math.log10(max(0.005, 100 - value))
    )


def _fine(low: float | int, high: float | int) -> list[float | int]:
    """Returns marks at equal steps around values that hardly differ."""
    step = next(step for step in FINE if (high - low) / step <= MAX_TICKS - 2)
    first, last = math.floor(low / step), math.ceil(high / step)
    alone = first == last
    ticks = [round(step * place, 2) for place in range(first - alone, last + alone + 1)]
    return [tick for tick in ticks if 0 <= tick <= 100]


def _between(
    steps: Sequence[float | int], low: float | int, high: float | int
) -> list[float | int]:
    """Returns the steps from the last at or below `low` to the first at or above `high`."""
    first = max((place for place, step in enumerate(steps) if step <= low), default=0)
    last = min((place for place, step in enumerate(steps) if step >= high), default=len(steps) - 1)
    if first == last:
        first, last = max(0, first - 1), min(len(steps) - 1, last + 1)
    return list(steps[first : last + 1])
