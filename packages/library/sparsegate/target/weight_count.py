"""The goal of a number of weights, or of a fraction of them."""

from __future__ import annotations

from .goal import Goal, View, falling
from .target import Target


class Number(Goal):
    """So many weights, whatever they cost."""

    def __init__(self, target: Target, view: View) -> None:
        self._target = target
        self._start = float(view.num_open())
        self.count = _checked(target, view.num_gates(), view.num_layers())

    def budget(self, progress: float) -> float:
        """Falls to the number asked for."""
        return falling(
            self._target, progress, start=max(self._start, float(self.count)), end=float(self.count)
        )

    def final(self, view: View) -> int:
        """The number asked for."""
        return self.count

    def state(self) -> list[float]:
        """Where the fall began: a model that is loaded before its optimiser is made has fewer open gates."""
        return [self._start]

    def load(self, state: list[float]) -> None:
        """Takes it back."""
        (self._start,) = state


def _checked(target: Target, num_gates: int, num_layers: int) -> int:
    count = (
        target.weights if target.weights is not None else round((target.keep or 0.0) * num_gates)
    )
    asked = f"{target.wish}={getattr(target, target.wish)} of {num_gates:,} gated weights"
    if count < num_layers:
        raise ValueError(
            f"{asked} leaves {count}, fewer than one in each of the {num_layers} layers; the least is "
            f"weights={num_layers}, which is keep={num_layers / num_gates:.2g}"
        )
    if count > num_gates:
        raise ValueError(f"{asked} are more than there are; the most is weights={num_gates}")
    return count
