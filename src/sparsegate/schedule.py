"""Factors over the course of training, as functions of its progress from 0 to 1."""

from __future__ import annotations

import math


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
