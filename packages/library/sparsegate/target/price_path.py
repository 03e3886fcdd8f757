"""The way that a price took from the first closing gate to the exact cut, and how to take it again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .target import Target

PARTS = 25  # of the way; enough to repeat a run, few enough to type


class Path:
    """The mean price in each of some equal parts of the way, each step counted by how far gates moved in it."""

    def __init__(self, target: Target, device: torch.device) -> None:
        self._target = target
        self._sums, self._weights = (torch.zeros(PARTS, device=device) for _ in range(2))

    def take(self, price: Tensor, distance: float, progress: float) -> None:
        """Remembers the price of a step; nothing waits for a GPU."""
        part = _part(PARTS, self._target, progress)
        self._sums[part] += price * distance
        self._weights[part] += distance

    def prices(self) -> tuple[float, ...]:
        """The prices so far; a part without a step, as short trainings have, repeats the one before."""
        found: list[float] = []
        for price, weight in zip(self._sums.tolist(), self._weights.tolist(), strict=True):
            found.append(price / weight if weight > 0 else (found[-1] if found else 0.0))
        return tuple(found)

    def state(self) -> list[list[float]]:
        """What must be remembered in a checkpoint."""
        return [self._sums.tolist(), self._weights.tolist()]

    def load(self, state: list[list[float]]) -> None:
        """Takes back what `state` gave."""
        self._sums, self._weights = (torch.tensor(each, device=self._sums.device) for each in state)


def at(path: Sequence[float], target: Target, progress: float) -> float:
    """The price of a moment on a path.

    >>> at((1.0, 5.0), Target(path=(1.0, 5.0), begin=0.2, reach=0.4, freeze=0.6), progress=0.41)
    5.0
    """
    return path[_part(len(path), target, progress)]


def _part(parts: int, target: Target, progress: float) -> int:
    done = (progress - target.begin) / (target.freeze - target.begin)
    return min(parts - 1, max(0, int(done * parts)))
