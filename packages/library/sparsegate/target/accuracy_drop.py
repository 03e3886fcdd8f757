"""The goal of a loss of accuracy that is not exceeded."""

from __future__ import annotations

import math
import statistics
import warnings

from .goal import LOOKS, Goal, View, smallest
from .target import Target
from .unreachable import UnreachableTarget

FINEST, FASTER = (
    0.02,
    1.5,
)  # the smallest change of the budget at a look, as a factor, and how it grows on a long way
TRIES, EXACTLY = 7, 12
SPENT = 0.25  # of the drop in training; the rest is for the cut at the end
MEDIAN_OF = 3  # looks: one alone is as uncertain as the learning rate is high


class Drop(Goal):
    """As few weights as cost at most so many points of validation accuracy.

    The budget falls by a factor at every look as long as the accuracy is above the floor, and rises while it is below;
    the factor shrinks with every turn and grows with every look that says the same as the one before. The accuracy of
    a moment is the median of the last looks. The floor is `max_drop` below the baseline in the end and lower before:
    the network has not learned everything yet, and with a high learning rate none is at its best. By how much is seen
    in the dense phase. A part of the drop is held back, and no weight is taken after `reach`, when there is little time
    to make up for it: what can be spared once the weights have settled is cut at the very end.
    """

    def __init__(self, target: Target, view: View) -> None:
        assert target.max_drop is not None
        if target.baseline is None:
            raise ValueError(
                "max_drop needs baseline=, the validation accuracy of the dense network in per cent"
            )
        self._target, self._baseline, self._allowed = target, target.baseline, target.max_drop
        self._least, self._most = math.log(view.num_layers()), math.log(view.num_gates())
        # Far enough, if the accuracy never falls, to come to the least by the moment of `reach`.
        self._largest = (self._most - self._least) / max(1.0, LOOKS * (target.reach - target.begin))
        self._factor = self._largest
        self._seen: list[float] = []
        start = math.log(max(view.num_open(), view.num_layers()))
        self._last, self._next, self._since, self._way, self._best = (
            start,
            start,
            target.begin,
            -1.0,
            0.0,
        )
        self._behind = 0.0  # how far the dense network is below the baseline at `begin`

    def floor(self, progress: float) -> float:
        """The accuracy that training must not fall short of, at this moment."""
        left = (1 - progress) / (1 - self._target.begin)
        return self._baseline - SPENT * self._allowed - self._behind * left**2

    def budget(self, progress: float) -> float:
        """Moves from the budget of the last look to the next one."""
        done = min(1.0, max(0.0, (progress - self._since) * LOOKS))
        return math.exp(self._last + (self._next - self._last) * done)

    def look(self, view: View, progress: float) -> None:
        """Lowers or raises the budget."""
        self._seen = [*self._seen, view.accuracy()][-MEDIAN_OF:]
        accuracy = statistics.median(self._seen)
        self._best = max(self._best, accuracy)
        if progress < self._target.begin:
            self._behind = max(0.0, self._baseline - self._best)
            return
        if progress - 1 / LOOKS < self._target.reach <= progress:
            self._check_reach(progress)
        way = -1.0 if accuracy >= self.floor(progress) else 1.0
        factor = self._factor * FASTER if way == self._way else self._factor / 2
        self._factor = min(self._largest, max(FINEST, factor))
        self._last, self._since, self._way = self._next, progress, way
        # No further below what is open than gates can follow: a budget that has run ahead would be missed later.
        lowest = max(self._least, math.log(max(1, view.num_open())) - 2 * self._largest)
        late = way < 0 and progress >= self._target.reach
        self._next = min(
            self._most, max(lowest, self._next + (0.0 if late else way * self._factor))
        )

    def final(self, view: View) -> int:
        """The smallest number whose network is above the floor; about as many as are open if none is."""
        # Hardly more than are open: weights behind closed gates have not learned.
        now = max(view.num_layers(), view.num_open())
        most = max(now, min(round(1.1 * now), math.ceil(math.exp(self._next))))
        low, floor = max(view.num_layers(), most // 8), self.floor(self._target.freeze)
        return smallest(lambda count: view.accuracy_of(count) >= floor, low, most, tries=TRIES)

    def _check_reach(self, progress: float) -> None:
        if self._best < self.floor(progress) - (1 - SPENT) * self._allowed:
            nearest = self._baseline - self._best
            warnings.warn(
                f"max_drop={self._allowed} below {self._baseline} % is out of reach so far: the best accuracy yet, "
                f"with any number of weights, is {self._best:.2f} %, which is max_drop={nearest:.2f}; weights are "
                "kept until it is better",
                UnreachableTarget,
                stacklevel=2,
            )

    def end(self, view: View) -> int | None:
        """Cuts what can be spared now that the weights have settled; says so if the accuracy has fallen too far."""
        accuracy, wanted, now = view.accuracy(), self._baseline - self._allowed, view.num_open()
        if accuracy >= wanted:
            least = view.num_layers()
            fewest = smallest(
                lambda count: view.accuracy_of(count) >= wanted, least, now, tries=EXACTLY
            )
            return fewest if fewest < now else None
        warnings.warn(
            f"max_drop={self._allowed} below {self._baseline} % was not met: {accuracy:.2f} % with "
            f"{now:,} weights, {wanted - accuracy:.2f} points too few; the nearest that this training "
            f"reached is max_drop={self._baseline - accuracy:.2f}: ask for that, or train for longer",
            UnreachableTarget,
            stacklevel=2,
        )
        return None

    def state(self) -> list[float]:
        """The budget, how it changes, and the accuracies seen last and best."""
        return [
            self._last,
            self._next,
            self._since,
            self._way,
            self._best,
            self._factor,
            self._behind,
            *self._seen,
        ]

    def load(self, state: list[float]) -> None:
        """Takes them back."""
        (
            self._last,
            self._next,
            self._since,
            self._way,
            self._best,
            self._factor,
            self._behind,
            *self._seen,
        ) = state
