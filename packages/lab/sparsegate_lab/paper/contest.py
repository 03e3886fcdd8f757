"""Ranks studies of one network by several methods against learned gates of the same size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK
from sparsegate_lab.study import Study, Summary

from .printed import PrintedTable

GATES = "learned_gates"
SLACK = 1.02  # of the size: a seed more or less should not decide who may compete


@dataclass(frozen=True)
class Contestant:
    """The study of one method."""

    recipe: str
    study: Study

    @property
    def is_gates(self) -> bool:
        """Whether the network was made by learned gates."""
        return bool(self.study.records[0].run["method"]["name"] == GATES)

    @property
    def kept(self) -> Summary:
        """The number of weights, or of what a layer stores instead of weights."""
        return self.study.summary(lambda record: record.kept)

    @property
    def with_indices(self) -> Summary:
        """The number of weights and of indices that say where they belong."""
        return self.study.summary(lambda record: record.num_with_indices)

    @property
    def rate(self) -> Summary:
        """How many times fewer weights the network has."""
        return self.study.summary(lambda record: record.rate)

    @property
    def test(self) -> Summary:
        """The test accuracy."""
        return self.study.summary(lambda record: record.test)

    @property
    def validation(self) -> float:
        """The mean validation accuracy, which selects networks."""
        return self.study.summary(lambda record: record.validation).mean

    def noise(self, otherwise: float = 0.0) -> float:
        """The standard error of the mean test accuracy; one seed uses another study's spread."""
        num_seeds = len(self.study.records)
        return (self.test.spread if num_seeds > 1 else otherwise) / math.sqrt(num_seeds)


def best_gates(entries: Iterable[Contestant], *, at_most: float) -> Contestant | None:
    """Returns the gated network of at most this size that has the best validation accuracy."""
    fitting = [each for each in entries if each.is_gates and each.kept.mean <= at_most * SLACK]
    return max(fitting, key=lambda each: each.validation, default=None)


def standing(gates: Contestant | None, other: Contestant) -> str:
    """Says in words how learned gates of at most the same size compare with a method."""
    if gates is None:
        return "no gates so small"
    difference = gates.test.mean - other.test.mean
    noise = 2 * math.hypot(gates.noise(other.test.spread), other.noise(gates.test.spread))
    word = "level" if abs(difference) <= noise else "ahead" if difference > 0 else "behind"
    return f"{word} ({difference:+.2f}, with {gates.kept.mean:,.0f})"


LOWEST = 98.35  # percent; all that is printed or measured so far is above
FEW = 12_000  # parameters; with fewer there is room for names
CROWD, END = 30_000, 200_000


def draw_contest(axes: Any, entries: Sequence[Contestant], printed: PrintedTable) -> None:
    """Draws the plot; the paper's rows and the smallest networks are labeled."""
    _printed(axes, printed)
    others = [each for each in entries if not each.is_gates]
    places = [each.kept.mean for each in others], [each.test.mean for each in others]
    axes.plot(*places, "s", color=INK[1], markersize=5, label="other methods, in our loop")
    for each in (each for each in others if each.kept.mean < FEW):
        _name(
            axes,
            each.recipe.removeprefix("lenet5-").replace("_", " "),
            (each.kept.mean, each.test.mean),
            INK[1],
        )
    gates = sorted((each for each in entries if each.is_gates), key=lambda each: each.kept.mean)
    curve = [each.kept.mean for each in gates], [each.test.mean for each in gates]
    spread = [each.test.spread for each in gates]
    axes.errorbar(
        *curve,
        yerr=spread,
        marker="o",
        color=INK[0],
        capsize=3,
        label="learned gates, ours",
        zorder=3,
    )
    axes.set(xscale="log", xlabel="parameters", ylabel="test accuracy, %", ylim=(LOWEST, None))
    axes.legend(loc="lower left")


def _printed(axes: Any, printed: PrintedTable) -> None:
    """Returns the parameters and accuracy of the paper's own rows."""
    cells = {
        row: [printed.number(row, column) for column in ("parameters", "accuracy")]
        for row in printed.rows
    }
    points = {row: [each.value for each in both if each is not None] for row, both in cells.items()}
    known = {row: (both[0], both[1]) for row, both in points.items() if len(both) == 2}
    axes.plot(
        *zip(*known.values(), strict=True),
        "D",
        color=INK[3],
        markersize=5,
        label="printed in the paper",
    )
    for row, place in known.items():
        _name(axes, row, place, INK[3])


def _name(axes: Any, text: str, place: tuple[float, float], colour: str) -> None:
    """Places a label to the right of its point, or to the left where space is short."""
    turned = FEW < place[0] < CROWD or place[0] > END
    shift, side = ((-6, -3), "right") if turned else ((6, -3), "left")
    axes.annotate(
        text, place, xytext=shift, textcoords="offset points", fontsize=7, color=colour, ha=side
    )
