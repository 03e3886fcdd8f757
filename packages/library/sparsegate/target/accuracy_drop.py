"""The goal of a loss of accuracy that training must not exceed."""

from __future__ import annotations

import math
import statistics
import warnings

from .goal import LOOKS, Goal, View, smallest
from .target import Target, UnreachableTarget

FINEST = 0.02  # smallest change of the budget's logarithm at a look
FASTER = 1.5  # growth of the change while looks agree
TRIES, EXACTLY = 7, 12  # of the searches at the cut and at the end
SPENT = 0.25  # share of the drop that training spends; the rest is for the cut at the end
MEDIAN_OF = 3  # looks; a single one is uncertain while the learning rate is high


class AccuracyDrop(Goal):
    """As few weights as cost at most a given number of points of validation accuracy.

    The budget falls by a factor at every look while the accuracy is above the floor, and rises
    while it is below. The factor shrinks with every turn and grows while looks agree. The accuracy
    is the median of the last looks.

    The floor ends `max_drop` below the baseline and is lower before: the network is still
    learning, and no network is at its best at a high learning rate. The dense phase shows by how
    much. A part of the drop is held back, and no weight is removed after `reach`, when little time
    is left to recover. Weights that can be spared once the others have settled are cut at the end.
    """

    def __init__(self, target: Target, view: View) -> None:
        assert target.max_drop is not None
        if target.baseline is None:
            raise ValueError(
                "max_drop needs baseline=, the validation accuracy of the dense network in percent"
            )
        self._target, self._baseline, self._allowed = target, target.baseline, target.max_drop
        self._least, self._most = math.log(view.num_layers()), math.log(view.num_gates())
        # Large enough to come to the least by `reach` if the accuracy never falls.
        self._largest = (self._most - self._least) / max(1.0, LOOKS * (target.reach - target.begin))
        self._factor = self._largest
        self._seen: list[float] = []
        start = math.log(max(view.num_open(), view.num_layers()))
        self._last, self._next = start, start
        self._since, self._way, self._best = target.begin, -1.0, 0.0
        self._behind = 0.0  # how far the dense network is below the baseline at `begin`

    def floor(self, progress: float) -> float:
        """The lowest accuracy that is allowed at this moment."""
        left = (1 - progress) / (1 - self._target.begin)
        return self._baseline - SPENT * self._allowed - self._behind * left**2

    def budget(self, progress: float) -> float:
        """Moves from the budget of the last look to the next one."""
        done = min(1.0, max(0.0, (progress - self._since) * LOOKS))
        return math.exp(self._last + (self._next - self._last) * done)

    def aimed(self) -> float:
        """The budget of the next look, which falls as long as the accuracy allows."""
        return math.exp(self._next)

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
        # Not further below the open gates than they can follow.
        lowest = max(self._least, math.log(max(1, view.num_open())) - 2 * self._largest)
        late = way < 0 and progress >= self._target.reach
        self._next = min(
            self._most, max(lowest, self._next + (0.0 if late else way * self._factor))
        )

    def final(self, view: View) -> int:
        """The smallest number whose network is above the floor; if none, about the open gates."""
        # Hardly more than are open: weights with closed gates have not learned.
        now = max(view.num_layers(), view.num_open())
        most = max(now, min(round(1.1 * now), math.ceil(math.exp(self._next))))
        low, floor = max(view.num_layers(), most // 8), self.floor(self._target.freeze)
        return smallest(lambda count: view.accuracy_of(count) >= floor, low, most, tries=TRIES)

    def _check_reach(self, progress: float) -> None:
        if self._best < self.floor(progress) - (1 - SPENT) * self._allowed:
            nearest = self._baseline - self._best
            warnings.warn(
                f"max_drop={self._allowed} below {self._baseline} % is out of reach so far: the "
                f"best accuracy, with any number of weights, is {self._best:.2f} %, which is "
                f"max_drop={nearest:.2f}; no weights are removed until it is better",
                UnreachableTarget,
                stacklevel=2,
            )

    def end(self, view: View) -> int | None:
        """Cuts weights that can be spared now; warns if the accuracy has fallen too far."""
        accuracy, wanted, now = view.accuracy(), self._baseline - self._allowed, view.num_open()
        if accuracy >= wanted:
            least = view.num_layers()
            fewest = smallest(
                lambda count: view.accuracy_of(count) >= wanted, least, now, tries=EXACTLY
            )
            return fewest if fewest < now else None
        warnings.warn(
            f"max_drop={self._allowed} below {self._baseline} % was not met: {accuracy:.2f} % with "
            f"{now:,} weights, {wanted - accuracy:.2f} points too few; the nearest that this "
            f"training reached is max_drop={self._baseline - accuracy:.2f}: ask for that, or train "
            "for longer",
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
        """Restores them."""
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
