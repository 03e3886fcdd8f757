"""What changes over the course of training, as functions of its progress from 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass


def cosine(progress: float, *, until: float = 1.0) -> float:
    """One at the start, zero from `until` on, half a cosine between.

    >>> [round(cosine(progress), 3) for progress in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress / until))) if until > 0 else 0.0


def ramp(progress: float, *, over: float) -> float:
    """Zero at the start, one from `over` on, a straight line between; always one if `over` is zero.

    >>> [ramp(progress, over=0.5) for progress in (0.0, 0.25, 0.75)]
    [0.0, 0.5, 1.0]
    """
    return min(1.0, progress / over) if over > 0 else 1.0


@dataclass(frozen=True)
class Rounds:
    """Dense training, then cuts at even distances, with retraining after each.

    >>> rounds = Rounds(count=2, begin=0.4, end=0.6)
    >>> [round(rounds.keep(progress, of=0.25), 2) for progress in (0.3, 0.4, 0.6)]
    [1.0, 0.5, 0.25]
    """

    count: int = 3
    """How many cuts; each keeps the same fraction of what is left."""

    begin: float = 0.4
    """Fraction of training after which the first cut is made."""

    end: float = 0.65
    """Fraction of training after which the last cut is made."""

    retrain: float = 0.5
    """Learning rate after the first cut, as a fraction of the first; a cosine takes each to zero."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"there is at least one round, got count={self.count}")
        if not 0 < self.begin <= self.end <= 1:
            raise ValueError(
                f"wanted 0 < begin <= end <= 1, got begin={self.begin}, end={self.end}"
            )
        if not self.retrain > 0:
            raise ValueError(f"retrain is a factor above zero, got {self.retrain}")

    def due(self, progress: float) -> int:
        """How many cuts have been made at this moment."""
        space = (self.end - self.begin) / max(1, self.count - 1)
        # A little early rather than a whole epoch late where rounding meets a moment.
        return sum(progress >= self.begin + place * space - 1e-9 for place in range(self.count))

    def keep(self, progress: float, *, of: float) -> float:
        """The fraction of weights that is left at this moment, if `of` is left after the last cut."""
        return float(of ** (self.due(progress) / self.count))

    def lr_factor(self, progress: float) -> float:
        """The factor on the learning rate: one cosine for the dense phase, a lower one for what follows."""
        if progress < self.begin:
            return cosine(progress, until=self.begin)
        return self.retrain * cosine(progress - self.begin, until=1 - self.begin)
