"""The plan of a target that asks for another fraction of each group of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from torch import Tensor, nn

from sparsegate.gates import require_gates
from sparsegate.price import GatePlan, Moment, Motion, Slope

from .plan import TargetPlan
from .same_target import check_same_target, settings_of
from .target import Found, Target


class GroupedPlan(GatePlan):
    """Moves the gates of every group of layers by a plan of its own.

    Args:
        model: The gated model.
        target: A target whose `keep` has a fraction for every name pattern.
        steps: The number of steps of the whole training.
        momentum: The gates' momentum.
    """

    def __init__(self, model: nn.Module, target: Target, *, steps: int, momentum: float) -> None:
        self.target, self.steps = target, steps
        names = list(require_gates(model))
        groups = _groups(names, target)
        self._places = [[names.index(name) for name in group] for group in groups.values()]
        self._plans = {
            pattern: TargetPlan(
                model,
                target.groups[pattern],
                steps=steps,
                judge=None,
                momentum=momentum,
                names=group,
            )
            for pattern, group in groups.items()
        }
        self._num_gates = len(names)

    @property
    def done(self) -> int:
        """How many steps are done."""
        return next(iter(self._plans.values())).done

    @property
    def found(self) -> Found:
        """What the targets have led to so far; the price is the mean over all gates."""
        groups = tuple((pattern, plan.found) for pattern, plan in self._plans.items())
        kept = sum(found.kept for _, found in groups)
        total = sum(found.total for _, found in groups)
        price = sum(found.price * found.total for _, found in groups) / total
        ended = all(found.ended for _, found in groups)
        return Found(str(self.target), kept, total, price, (), ended, groups=groups)

    def motion(self, moment: Moment) -> Motion | None:
        """How gates move in this step; None once all masks are frozen."""
        moment = moment._replace(gradients=cache(moment.gradients))
        rates, slopes = [0.0] * self._num_gates, [Slope(0.0, 0.0)] * self._num_gates
        shifts: list[Tensor | None] = [None] * self._num_gates
        for places, plan in zip(self._places, self._plans.values(), strict=True):
            motion = plan.motion(_part(moment, places))
            if motion is None:
                continue
            for place, rate, slope in zip(places, motion.rates, motion.slopes, strict=True):
                rates[place], slopes[place], shifts[place] = rate, slope, motion.shift
        return (
            None if all(shift is None for shift in shifts) else Motion(rates, slopes, shifts=shifts)
        )

    def after_step(self) -> None:
        """Counts the step, and makes the cuts when they are due."""
        for plan in self._plans.values():
            plan.after_step()

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold, as plain values."""
        return {
            "asked": settings_of(self.target, self.steps),
            "groups": {pattern: plan.state() for pattern, plan in self._plans.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned.

        Raises:
            ValueError: If it is the state of another target.
        """
        check_same_target(state, self.target, self.steps)
        for pattern, plan in self._plans.items():
            plan.load(state["groups"][pattern])


def target_plan(
    model: nn.Module,
    target: Target,
    *,
    steps: int,
    judge: Callable[[], float] | None,
    momentum: float,
) -> TargetPlan | GroupedPlan:
    """The plan for a target: one for all gates, or one for every group of layers."""
    if isinstance(target.keep, Mapping):
        return GroupedPlan(model, target, steps=steps, momentum=momentum)
    return TargetPlan(model, target, steps=steps, judge=judge, momentum=momentum)


def _groups(names: Sequence[str], target: Target) -> dict[str, list[str]]:
    """The names of the weights of every group; the first pattern that matches counts."""
    groups: dict[str, list[str]] = {pattern: [] for pattern in target.groups}
    for name in names:
        pattern = next((each for each in groups if fnmatchcase(name, each)), None)
        if pattern is None:
            raise ValueError(
                f"{name} has gates and no target; add a pattern that matches it, or '*' for all "
                f"others, after {list(groups)}, or leave it out: Select(skip=...)"
            )
        groups[pattern].append(name)
    if unused := [pattern for pattern, group in groups.items() if not group]:
        raise ValueError(
            f"no gated weight is left for the target of {', '.join(unused)}; "
            f"the gated weights are {', '.join(names)}"
        )
    return groups


def _part(moment: Moment, places: Sequence[int]) -> Moment:
    """What an optimizer reports, for the gates of one group."""

    def gradients() -> list[Tensor | None]:
        all_of_them = moment.gradients()
        return [all_of_them[place] for place in places]

    return moment._replace(gradients=gradients, memory=[moment.memory[place] for place in places])
