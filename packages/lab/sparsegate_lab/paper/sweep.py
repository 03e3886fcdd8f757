"""Sparsity of fc1 over one setting, for both draws: the basis of the paper's three curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK
from sparsegate_lab.study import Study, Summary
from sparsegate_lab.train import Run

from .exhibit import Exhibit, Studies
from .fc1_runs import (
    DRAWS,
    SETTING,
    DrawName,
    sampled_sparsity,
    sampled_variance,
    threshold_sparsity,
)
from .findings import Findings, Row
from .verdict import Claim

OF: dict[str, tuple[DrawName, Callable[[Study], Summary]]] = {
    "sparsity [T]": ("threshold", threshold_sparsity),
    "mean sparsity [S]": ("sample", sampled_sparsity),
    "variance [S]": ("sample", sampled_variance),
}
LOOKS: Mapping[str, dict[str, Any]] = {
    "sparsity [T]": {"color": INK[0], "marker": "o", "linestyle": "-"},
    "mean sparsity [S]": {"color": INK[1], "marker": "s", "linestyle": "-"},
    "variance [S]": {"color": INK[1], "marker": "^", "linestyle": ":"},
}


@dataclass(frozen=True)
class Curves:
    """Returns means over seeds at each value: threshold, sample, and the sample's variance."""

    threshold: list[Summary]
    sample: list[Summary]
    variance: list[Summary]

    def by_name(self) -> dict[str, list[Summary]]:
        """Returns the curves by the paper's names for them."""
        return dict(zip(OF, (self.threshold, self.sample, self.variance), strict=True))

    def sparsities(self) -> tuple[list[float], list[float]]:
        """Returns the means of the two sparsities."""
        return [each.mean for each in self.threshold], [each.mean for each in self.sample]


@dataclass(frozen=True)
class Sweep(Exhibit):
    """A figure of runs at several values of one setting, each with both draws."""

    heading: str
    """Its place in the paper and what it shows."""
    setting: str
    """The varied setting, in words."""
    axis: str
    """The varied setting, as an axis label."""
    values: tuple[float, ...]
    run: Callable[[float, DrawName], Run[Any]]
    claims: Callable[[Curves], tuple[Claim, ...]]
    """Checks what the paper concludes from its curves."""
    why: str = ""
    """Why ours differs, where it does."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return self.heading

    def plan(self) -> dict[str, Run[Any]]:
        """Two runs for each value."""
        return {
            f"{value:g} {draw}": self.run(value, draw) for value in self.values for draw in DRAWS
        }

    def curves(self, studies: Studies) -> Curves | None:
        """Returns the three curves, or None until every point has a record."""
        if any(name not in studies for name in self.plan()):
            return None
        return Curves(
            *(
                [of(studies[f"{value:g} {draw}"]) for value in self.values]
                for draw, of in OF.values()
            )
        )

    def findings(self, studies: Studies) -> Findings:
        """Returns the curves as a table and as points, and the claims."""
        curves = self.curves(studies)
        if curves is None:
            return Findings(
                self.heading, claims=(Claim("the curves of the figure", None),), notes=(SETTING,)
            )
        each = curves.by_name()
        body = zip(
            *(
                [f"{point.mean:.1f} ± {point.spread:.1f}" for point in curve]
                for curve in each.values()
            ),
            strict=True,
        )
        rows: tuple[Row, ...] = tuple(
            (f"{value:g}", *row) for value, row in zip(self.values, body, strict=True)
        )
        points = {self.setting: list(self.values)}
        for column, curve in each.items():
            points[column] = [point.mean for point in curve]
            points[f"{column}, spread"] = [point.spread for point in curve]
        notes = (SETTING, *((self.why,) if self.why else ()))
        return Findings(
            self.heading, ((self.setting, *OF), *rows), (), self.claims(curves), notes, points
        )

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws both sparsities with a band of one standard deviation, and the variance."""
        curves = self.curves(studies)
        if curves is None:
            return False
        axes = figure.subplots()
        for column, curve in curves.by_name().items():
            look = LOOKS[column]
            axes.plot(self.values, [each.mean for each in curve], label=column, **look)
            low, high = ([each.mean + side * each.spread for each in curve] for side in (-1, 1))
            axes.fill_between(self.values, low, high, color=look["color"], alpha=0.15, linewidth=0)
        axes.set(xlabel=self.axis, ylabel="% of the weights of fc1", ylim=(0, 103))
        axes.legend(loc="center right")
        return True
