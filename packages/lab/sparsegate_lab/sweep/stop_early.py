"""Decides which trials end before their last epoch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeAlias

Curve: TypeAlias = "Sequence[Sequence[float | int]]"
"""After every epoch: the fraction of training, validation accuracy, and weights that are left."""
BEGIN = 0.5
"""Fraction of training before which no trial ends, as networks lose most of their weights then."""
PEERS = 4
"""Ended trials that a trial is compared with, at the least."""
SAME_SIZE = 1.05
"""A network with up to this many times the weights counts as no larger."""


def is_behind(curve: Curve, others: Sequence[Curve], *, by_size: bool) -> bool:
    """Whether a trial is less accurate than half of the trials that it is compared with.

    It is compared at the same fraction of training. Optuna's own pruners cannot compare trials
    with two objectives.

    >>> others = [[[0.5, accuracy, 100]] for accuracy in (90.0, 91.0, 92.0, 93.0)]
    >>> is_behind([[0.5, 91.0, 100]], others, by_size=True)
    True
    >>> is_behind([[0.5, 91.0, 20]], others, by_size=True)
    False

    Args:
        curve: what the trial has measured up to now.
        others: the curves of trials that have ended.
        by_size: compare only with networks that are no larger, as when both accuracy and size are
            objectives.
    """
    progress, accuracy, kept = curve[-1]
    if progress < BEGIN:
        return False
    points = [point for other in others if (point := _at(other, progress)) is not None]
    peers = [
        other_accuracy
        for _, other_accuracy, other_kept in points
        if not by_size or other_kept <= SAME_SIZE * kept
    ]
    return len(peers) >= PEERS and accuracy < statistics.median(peers)


def _at(curve: Curve, progress: float) -> Sequence[float | int] | None:
    """The last point of a curve up to a fraction of training."""
    before = [point for point in curve if point[0] <= progress + 1e-9]
    return before[-1] if before else None
