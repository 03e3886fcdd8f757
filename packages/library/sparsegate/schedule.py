"""Schedules: functions of the progress of training from 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass


def cosine(progress: float, *, until: float = 1.0) -> float:
    """Falls from one to zero along half a cosine.

    >>> [round(cosine(progress), 3) for progress in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]

    Args:
        progress: The fraction of training that is done.
        until: The progress from which on the result is zero.
    """
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress / until))) if until > 0 else 0.0


def ramp(progress: float, *, over: float) -> float:
    """Rises linearly from zero to one.

    >>> [ramp(progress, over=0.5) for progress in (0.0, 0.25, 0.75)]
    [0.0, 0.5, 1.0]

    Args:
        progress: The fraction of training that is done.
        over: The progress from which on the result is one; with zero it always is.
    """
    return min(1.0, progress / over) if over > 0 else 1.0


@dataclass(frozen=True)
class Rounds:
    """Dense training, then evenly spaced cuts, with retraining after each.

    >>> rounds = Rounds(count=2, begin=0.4, end=0.6)
    >>> [round(rounds.keep(progress, of=0.25), 2) for progress in (0.3, 0.4, 0.6)]
    [1.0, 0.5, 0.25]
    """

    count: int = 3
    """Number of cuts; each keeps the same fraction of the remaining weights."""

    begin: float = 0.4
    """Fraction of training at which the first cut is made."""

    end: float = 0.65
    """Fraction of training at which the last cut is made."""

    retrain: float = 0.5
    """Learning rate after the first cut, as a fraction of the initial one; both fall as cosines."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count is a number of cuts, at least 1, got {self.count}")
        if not 0 < self.begin <= self.end <= 1:
            raise ValueError(
                f"0 < begin <= end <= 1 must hold, got begin={self.begin}, end={self.end}"
            )
        if not self.retrain > 0:
            raise ValueError(f"retrain is a factor above zero, got {self.retrain}")

    def due(self, progress: float) -> int:
        """The number of cuts that are due."""
        space = (self.end - self.begin) / max(1, self.count - 1)
        # Slightly early rather than a whole epoch late because of rounding.
        return sum(progress >= self.begin + index * space - 1e-9 for index in range(self.count))

    def keep(self, progress: float, *, of: float) -> float:
        """The fraction of weights that is left now, if `of` is left after the last cut."""
        return float(of ** (self.due(progress) / self.count))

    def lr_factor(self, progress: float) -> float:
        """The factor on the learning rate: one cosine for the dense phase, a lower one after it."""
        if progress < self.begin:
            return cosine(progress, until=self.begin)
        return self.retrain * cosine(progress - self.begin, until=1 - self.begin)


@dataclass(frozen=True)
class Gradual:
    """Dense training, then a fraction of weights that falls along a cube and is held.

    >>> gradual = Gradual(begin=0.2, end=0.6)
    >>> [round(gradual.keep(progress, of=0.1), 3) for progress in (0.1, 0.4, 0.6)]
    [1.0, 0.212, 0.1]
    """

    begin: float = 0.1
    """Fraction of training that is dense."""

    end: float = 0.7
    """Fraction of training at which the wanted fraction of weights is reached."""

    def __post_init__(self) -> None:
        if not 0 <= self.begin < self.end <= 1:
            raise ValueError(
                f"0 <= begin < end <= 1 must hold, got begin={self.begin}, end={self.end}"
            )

    def keep(self, progress: float, *, of: float) -> float:
        """The fraction of weights that is left now, if `of` is left at the end."""
        done = (progress - self.begin) / (self.end - self.begin)
        left: float = 1 - min(1.0, max(0.0, done))
        return of + (1 - of) * left**3
