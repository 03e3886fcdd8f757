"""The goal of a loss of accuracy that is not exceeded."""

from __future__ import annotations

import math
import warnings

from .goal import LOOKS, Goal, View, smallest
from .target import Target
from .unreachable import UnreachableTarget

FINEST = 0.02  # the smallest change of the budget at a look, as a factor
TRIES = 7


class Drop(Goal):
    """As few weights as cost at most so many points of validation accuracy.

    The budget falls by a factor at every look as long as the accuracy is above the floor, and rises while it is below;
    the factor shrinks with every turn. The floor is `max_drop` below the baseline or below the best accuracy that this
    run has shown yet, whichever is lower: with a high learning rate no network is at its best.
    """

    def __init__(self, target: Target, view: View) -> None:
        assert target.max_drop is not None
        if target.baseline is None:
            raise ValueError("max_drop needs baseline=, the validation accuracy of the dense network in per cent")
        self._target, self._baseline, self._allowed = target, target.baseline, target.max_drop
        self._least, self._most = math.log(view.num_layers()), math.log(view.num_gates())
        # Far enough, if the accuracy never falls, to come to the least by the moment of `reach`.
        self._factor = (self._most - self._least) / max(1.0, LOOKS * (target.reach - target.begin))
        start = math.log(max(view.num_open(), view.num_layers()))
        self._last, self._next, self._since, self._way, self._best = start, start, target.begin, -1.0, 0.0

    @property
    def floor(self) -> float:
        """The accuracy that must not be fallen short of, at this moment."""
        return min(self._baseline, self._best) - self._allowed

    def budget(self, progress: float) -> float:
        """Moves from the budget of the last look to the next one."""
        done = min(1.0, max(0.0, (progress - self._since) * LOOKS))
        return math.exp(self._last + (self._next - self._last) * done)

    def look(self, view: View, progress: float) -> None:
        """Lowers or raises the budget."""
        accuracy = view.accuracy()
        self._best = max(self._best, accuracy)
        if progress < self._target.begin:
            return
        way = -1.0 if accuracy >= self.floor else 1.0
        if way != self._way:
            self._factor = max(FINEST, self._factor / 2)
        self._last, self._since, self._way = self._next, progress, way
        self._next = min(self._most, max(self._least, self._next + way * self._factor))

    def final(self, view: View) -> int:
        """The smallest number whose network is above the floor; about as many as are open if none is."""
        if self._best < self._baseline - self._allowed:
            warnings.warn(
                f"max_drop={self._allowed} below {self._baseline} % is out of reach so far: the best accuracy yet, "
                f"with any number of weights, is {self._best:.2f} %; weights are cut to that",
                UnreachableTarget,
                stacklevel=2,
            )
        # Hardly more than are open: weights behind closed gates have not learned.
        most = max(view.num_layers(), min(round(1.1 * view.num_open()), math.ceil(math.exp(self._next))))
        low = max(view.num_layers(), most // 8)
        return smallest(lambda count: view.accuracy_of(count) >= self.floor, low, most, tries=TRIES)

    def end(self, view: View) -> int | None:
        """Says so if the accuracy has fallen too far after all."""
        accuracy, wanted = view.accuracy(), self._baseline - self._allowed
        if accuracy < wanted:
            warnings.warn(
                f"max_drop={self._allowed} below {self._baseline} % was not met: {accuracy:.2f} % with "
                f"{view.num_open():,} weights, {wanted - accuracy:.2f} points too few; the nearest that this training "
                f"reached is max_drop={self._baseline - accuracy:.2f}: ask for that, or train for longer",
                UnreachableTarget,
                stacklevel=2,
            )
        return None

    def state(self) -> list[float]:
        """The budget, how it changes, and the best accuracy."""
        return [self._last, self._next, self._since, self._way, self._best, self._factor]

    def load(self, state: list[float]) -> None:
        """Takes them back."""
        self._last, self._next, self._since, self._way, self._best, self._factor = state
