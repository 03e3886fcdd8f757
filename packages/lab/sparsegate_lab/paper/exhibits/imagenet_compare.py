"""Tables 6 and 7 of the paper: AlexNet and VGG-16 by several methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK
from sparsegate_lab.study import Study

from ..contest import Contestant
from ..exhibit import Exhibit, Studies
from ..findings import Findings, Row
from ..imagenet import BASELINE, NETWORKS, began_with, dense, difference, gated, lost, notes
from ..printed import PrintedTable
from ..verdict import Check, Tolerance

HEADS: Row = (
    "method",
    "parameters",
    "with indices",
    "top-1 accuracy",
    "against dense",
    "rate",
    "whose",
)
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
FALLS = (1, 0, -1, -2, -5, -10, -20, -50)
LINEAR = 2  # points; larger losses are drawn on a compressed scale
CURVE = "The plot compares every network with its own dense one; our data differ from the paper's."


@dataclass(frozen=True)
class ImagenetCompare(Exhibit):
    """The paper's rows, followed by every study of the network under results/."""

    network: str
    """alexnet or vgg16."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        about = NETWORKS[self.network]
        return f"{about.compare.name}: {about.name} by several methods"

    def wanted(self) -> str:
        """Every study of the network."""
        return f"{self.network}-*.json"

    def findings(self, studies: Studies) -> Findings:
        """Returns the rows, and rate and loss of learned gates next to the printed ones."""
        about, study = NETWORKS[self.network], gated(self.network, studies)
        near = Tolerance(round(about.rate.value / 10, 2), "a tenth of the printed rate", "higher")
        check = Check(
            about.rate, None if study is None else Contestant("", study).rate, near, digits=1
        )
        return Findings(
            self.title(),
            (HEADS, *_paper_rows(about.compare), *_our_rows(self.network, studies)),
            (check,),
            lost(self.network, studies),
            (
                *notes(self.network, study),
                *((CURVE,) if studies else ()),
                *_strangers(self.network, studies),
            ),
            _points(self.network, studies),
        )

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws accuracy relative to the dense network over the rate."""
        points = _points(self.network, studies)
        if not points:
            return False
        axes = figure.subplots()
        table = NETWORKS[self.network].compare
        for label in (row for row in table.rows if row != BASELINE):
            rate_there, fall_there = _value(table, label, "rate"), _paper_fall(table, label)
            if rate_there is not None and fall_there is not None:
                place = rate_there, fall_there
                axes.plot(*place, marker="o", color=INK[3], linestyle="none")
                beside = (-4, -14 if fall_there < 0 else 6)
                axes.annotate(
                    label,
                    place,
                    xytext=beside,
                    textcoords="offset points",
                    fontsize="small",
                    color=INK[3],
                )
        rate, fall, noise = points.values()
        axes.errorbar(
            rate, fall, yerr=noise, marker="s", color=INK[0], capsize=3, label="learned gates, ours"
        )
        axes.axhline(0, color=INK[3], linewidth=1, linestyle=":")
        axes.set(
            xscale="log", xlabel="times fewer weights", ylabel="accuracy against dense, points"
        )
        axes.set_yscale("symlog", linthresh=LINEAR, linscale=LINEAR)
        axes.set_ylim(bottom=1.5 * min(-LINEAR, *fall))
        axes.set_yticks([each for each in FALLS if each >= 2 * min(fall) or each >= -LINEAR])
        axes.yaxis.set_major_formatter("{x:+g}")
        axes.set_xticks([each for each in TICKS if each <= 2 * max(rate)], minor=False)
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:g}x")
        axes.legend(loc="lower left")
        return True


def _paper_rows(table: PrintedTable) -> list[Row]:
    rows: list[Row] = []
    for name, (parameters, indices, accuracy, rate) in table.rows.items():
        fall = _paper_fall(table, name)
        against = "-" if fall is None or name == BASELINE else f"{fall:+.2f}"
        rows.append((name, parameters, indices or "-", accuracy, against, rate or "-", "paper"))
    return rows


def _our_rows(network: str, studies: Studies) -> list[Row]:
    """Returns our networks, largest first; those with other layers have no dense reference."""
    base, entries = (
        dense(network, studies),
        [Contestant(name, study) for name, study in studies.items()],
    )
    return [_row(each, base) for each in sorted(entries, key=lambda each: -each.kept.mean)]


def _row(entry: Contestant, base: Study | None) -> Row:
    accuracy = f"{entry.test.mean:.2f} ± {entry.test.spread:.2f}"
    sizes = f"{entry.kept.mean:,.0f}", f"{entry.with_indices.mean:,.0f}"
    against = (
        "-"
        if base is None or base is entry.study
        else f"{difference(entry, Contestant('', base))[0]:+.2f}"
    )
    return (f"`{entry.recipe}`", *sizes, accuracy, against, f"{entry.rate.mean:.1f}x", "ours")


def _strangers(network: str, studies: Studies) -> tuple[str, ...]:
    """Names the studies whose dense networks are not here."""
    base = dense(network, studies)
    if base is None:
        return ()
    gates = {
        name: study.records for name, study in studies.items() if Contestant(name, study).is_gates
    }
    names = [
        f"`{name}`"
        for name, records in gates.items()
        if not any(began_with(each, base.records) for each in records)
    ]
    text = (
        "These started from dense networks that have been trained again since, and are compared "
        "with the mean of the current ones"
    )
    return (f"{text}: {', '.join(names)}.",) if names else ()


def _points(network: str, studies: Studies) -> dict[str, list[float]]:
    """Returns rate, relative accuracy and two standard errors for every study of learned gates."""
    base = dense(network, studies)
    entries = [Contestant("", study) for study in studies.values()]
    gates = sorted((each for each in entries if each.is_gates), key=lambda each: each.rate.mean)
    if base is None or not gates:
        return {}
    more, noise = zip(*(difference(each, Contestant("", base)) for each in gates), strict=True)
    return {
        "times fewer weights": [each.rate.mean for each in gates],
        "accuracy against dense": [round(each, 4) for each in more],
        "two standard errors": [round(each, 4) for each in noise],
    }


def _paper_fall(table: PrintedTable, row: str) -> float | None:
    base, own = _value(table, BASELINE, "accuracy"), _value(table, row, "accuracy")
    return None if base is None or own is None else round(own - base, 2)


def _value(table: PrintedTable, row: str, column: str) -> float | None:
    number = table.number(row, column)
    return None if number is None else number.value
