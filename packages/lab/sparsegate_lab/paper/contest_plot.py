"""Plots accuracy over parameters: learned gates, other methods, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsegate_lab.report import INK

from .contest import Contestant
from .printed import PrintedTable

LOWEST = 98.35  # per cent; all that is printed or measured so far is above
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
