"""Records the prices that a target finds during training, to follow them again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .target import Target

PARTS = 25  # enough to repeat a run, few enough to type


class PricePath:
    """Mean prices in equal parts of the time from `begin` to `freeze`, weighted by gate travel."""

    def __init__(self, target: Target, device: torch.device) -> None:
        self._target = target
        self._sums, self._weights = (torch.zeros(PARTS, device=device) for _ in range(2))

    def add(self, price: Tensor, distance: float, progress: float) -> None:
        """Records the price of a step, without waiting for a GPU."""
        part = _part(PARTS, self._target, progress)
        self._sums[part] += price * distance
        self._weights[part] += distance

    def prices(self) -> tuple[float, ...]:
        """The prices so far; a part without a step, as in short trainings, repeats the last one."""
        found: list[float] = []
        for price, weight in zip(self._sums.tolist(), self._weights.tolist(), strict=True):
            found.append(price / weight if weight > 0 else (found[-1] if found else 0.0))
        return tuple(found)

    def state(self) -> list[list[float]]:
        """What a checkpoint must hold."""
        return [self._sums.tolist(), self._weights.tolist()]

    def load(self, state: list[list[float]]) -> None:
        """Restores what `state` returned."""
        device = self._sums.device
        self._sums, self._weights = (torch.tensor(column, device=device) for column in state)


def price_at(path: Sequence[float], target: Target, progress: float) -> float:
    """The price on a path at a moment.

    >>> target = Target(path=(1.0, 5.0), begin=0.2, reach=0.4, freeze=0.6)
    >>> price_at((1.0, 5.0), target, progress=0.41)
    5.0
    """
    return path[_part(len(path), target, progress)]


def _part(parts: int, target: Target, progress: float) -> int:
    done = (progress - target.begin) / (target.freeze - target.begin)
    return min(parts - 1, max(0, int(done * parts)))
