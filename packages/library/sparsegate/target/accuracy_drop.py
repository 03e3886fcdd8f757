"""The goal of a loss of accuracy that training must not exceed."""

from __future__ import annotations

import math
import warnings

from .goal import LOOKS, Goal, View, smallest
from .target import Target, UnreachableTarget

FASTEST, RISING, FINEST = 0.35, 0.1, 0.02  # changes of the budget's logarithm at a look
FASTER = 1.5  # growth of the change while looks agree
TRIES, EXACTLY, ATONCE = 7, 12, 4  # of the searches at the cut, at the end, and in between
SPENT = 0.25  # share of the drop that is spent before the cut
ALL_SPENT = 0.5  # share of the time after the cut in which the rest is spent
LEARNED = 3.0  # power of the time left by which accuracy approaches its end
SLOWEST = 2.0  # the same power for a network that learns late
SPARED = 0.75  # smallest share of the weights that a cut after the freeze leaves


class AccuracyDrop(Goal):
    """As few weights as cost at most a given number of points of validation accuracy.

    The budget falls by a factor at every look while the accuracy is above the floor, and rises
    while it is below. The factor shrinks with every turn and grows while looks agree.

    The accuracy is that of the mean of the weights since the last look. With the weights of a
    single step it would be far too low while the learning rate is high, and the floor would be
    wrong by more than the drop.

    The floor ends `max_drop` below the baseline and is lower before, because the network is still
    learning. The dense phase shows by how much. A part of the drop is spent when the mask is
    frozen; the rest is spent by small cuts from then on, as long as the others can make up for
    them, and by a last one at the end.
    """

    may_rise = wants_mean = True

    def __init__(self, target: Target, view: View) -> None:
        assert target.max_drop is not None
        if target.baseline is None:
            raise ValueError(
                "max_drop needs baseline=, the validation accuracy of the dense network in percent"
            )
        self._target, self._baseline, self._allowed = target, target.baseline, target.max_drop
        self._least, self._most = math.log(view.num_layers()), math.log(view.num_gates())
        self._factor = FASTEST
        start = math.log(max(view.num_open(), view.num_layers()))
        self._last, self._next = start, start
        self._since, self._way, self._best = target.begin, -1.0, 0.0
        self._behind = 0.0  # how far the dense network is below the baseline at `begin`
        self._expected_gain = 0.0  # the same, corrected by what was seen since

    def floor(self, progress: float) -> float:
        """The lowest accuracy that is allowed at this moment."""
        late = max(0.0, progress - self._target.freeze) / (1 - self._target.freeze)
        spent = self._allowed * min(1.0, SPENT + (1 - SPENT) * late / ALL_SPENT)
        return self._baseline - spent - self._expected_gain * self._left(progress, LEARNED)

    def budget(self, progress: float) -> float:
        """Moves from the budget of the last look to the next one."""
        done = min(1.0, max(0.0, (progress - self._since) * LOOKS))
        return math.exp(self._last + (self._next - self._last) * done)

    def aimed(self) -> float:
        """The budget of the next look, which falls as long as the accuracy allows."""
        return math.exp(self._next)

    def look(self, view: View, progress: float) -> None:
        """Lowers or raises the budget."""
        accuracy = view.accuracy()
        self._best = max(self._best, accuracy)
        if progress < self._target.begin:
            self._behind = self._expected_gain = max(0.0, self._baseline - self._best)
            return
        if progress - 1 / LOOKS < self._target.reach <= progress:
            self._check_reach(progress)
        way = -1.0 if accuracy >= self.floor(progress) else 1.0
        if way > 0 and self._next >= self._most:
            # Nothing is removed, so this is what a dense network has at this moment.
            missing = self.floor(progress) - accuracy
            self._expected_gain += missing / max(1e-3, self._left(progress, LEARNED))
        factor = self._factor * FASTER if way == self._way else self._factor / 2
        self._factor = min(self._largest(progress), max(FINEST, factor))
        self._last, self._since, self._way = self._next, progress, way
        change = -self._factor
        if way > 0:  # weights that come back late have not learned
            change = min(RISING, self._factor) if progress < self._target.reach else 0.0
        # Not further from the open gates than they can follow.
        now = math.log(max(1, view.num_open()))
        lowest = max(self._least, now - 2 * self._largest(progress))
        self._next = min(self._most, now + RISING, max(lowest, self._next + change))

    def final(self, view: View) -> int:
        """The smallest number whose network is above the floor; if none, about the open gates."""
        # Hardly more than are open: weights with closed gates have not learned.
        now = max(view.num_layers(), view.num_open())
        most = max(now, min(round(1.1 * now), math.ceil(math.exp(self._next))))
        return self._fewest(
            view, self._target.freeze, max(view.num_layers(), most // 8), most, TRIES
        )

    def spare(self, view: View, progress: float) -> int | None:
        """Cuts a few weights that can be spared now."""
        now = view.num_open()
        least = max(view.num_layers(), round(SPARED * now))
        fewest = self._fewest(view, progress, least, now, ATONCE)
        return fewest if fewest < now else None

    def _largest(self, progress: float) -> float:
        """The largest change of the budget, which shrinks so that accuracy can follow."""
        begin, freeze = self._target.begin, self._target.freeze
        return max(FINEST, FASTEST * (freeze - progress) / (freeze - begin))

    def _left(self, progress: float, power: float) -> float:
        """A power of the share of time that is left."""
        left: float = ((1 - progress) / (1 - self._target.begin)) ** power
        return left

    def _fewest(self, view: View, progress: float, low: int, high: int, tries: int) -> int:
        floor = self.floor(progress)
        return smallest(lambda count: view.accuracy_of(count) >= floor, low, high, tries=tries)

    def _check_reach(self, progress: float) -> None:
        gain = self._behind * self._left(progress, SLOWEST)
        if self._best < self._baseline - self._allowed - gain:
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
        wanted, now = self._baseline - self._allowed, view.num_open()
        view.settle_()
        accuracy = view.accuracy()
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
        """The budget, how it changes, and the best accuracy."""
        return [
            self._last,
            self._next,
            self._since,
            self._way,
            self._best,
            self._factor,
            self._behind,
            self._expected_gain,
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
            self._expected_gain,
        ) = state
