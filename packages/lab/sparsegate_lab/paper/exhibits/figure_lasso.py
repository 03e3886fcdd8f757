"""The paper's discussion of LASSO: shrinkage against selection, at equal sparsity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import SIZE_EDGES
from sparsegate_lab.report import draw_sizes, mean_sizes, quantile
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

from ..exhibit import Exhibit, Studies
from ..findings import Findings, Row
from ..verdict import Claim

NAMES = {"lenet5-lasso": "LASSO", "lenet5-gates-36k": "learned gates"}
HEADS: Row = ("method", "weights", "accuracy", "10 % are below", "half", "90 %")
EQUAL = 0.1  # of the number of weights


@dataclass(frozen=True)
class FigureLasso(Exhibit):
    """Compares the sizes of the weights that LASSO and learned gates keep in LeNet-5."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return (
            "Section 2, in a figure of ours: LASSO shrinks the weights that it keeps, gates do not"
        )

    def plan(self) -> dict[str, Run[Any]]:
        """The two recipes of about 36,000 weights."""
        return {name: RECIPES[name]() for name in NAMES}

    def findings(self, studies: Studies) -> Findings:
        """Returns quantiles of the sizes, and whether those of LASSO are smaller."""
        found = _found(studies)
        sizes = {name: mean_sizes(study.records) for name, study in found.items()}
        rows = tuple(_row(name, found[name], counts) for name, counts in sizes.items())
        notes = (
            "Each bin is a quarter of an octave of |w|, over all layers, averaged over the seeds; "
            "dotted lines are medians. The paper discusses this comparison without a figure. The "
            "proximal step decreases with the learning rate, so many of LASSO's weights end close "
            "to zero and still count.",
        )
        points = {
            "size": list(SIZE_EDGES),
            **{name: list(counts[1:]) for name, counts in sizes.items()},
        }
        return Findings(
            self.title(), (HEADS, *rows), (), _claims(found, sizes), notes, points if sizes else {}
        )

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws the two histograms."""
        found = _found(studies)
        if len(found) == len(NAMES):
            draw_sizes(
                figure.subplots(),
                {name: mean_sizes(study.records) for name, study in found.items()},
            )
        return len(found) == len(NAMES)


def _found(studies: Studies) -> dict[str, Study]:
    return {name: studies[recipe] for recipe, name in NAMES.items() if recipe in studies}


def _row(name: str, study: Study, counts: list[float]) -> Row:
    kept, test = (
        study.summary(lambda record: record.kept),
        study.summary(lambda record: record.test),
    )
    sizes = (f"{quantile(counts, fraction):.2g}" for fraction in (0.1, 0.5, 0.9))
    return (name, f"{kept.mean:,.0f}", f"{test.mean:.2f} ± {test.spread:.2f}", *sizes)


def _claims(found: dict[str, Study], sizes: dict[str, list[float]]) -> tuple[Claim, ...]:
    equal = f"the two are compared at equal sparsity (within {EQUAL:.0%})"
    smaller = "LASSO shrinks the weights that it keeps: their median is smaller"
    if len(found) < len(NAMES):
        return Claim(equal, None), Claim(smaller, None)
    lasso, gates = sizes.values()
    medians, share = (quantile(lasso, 0.5), quantile(gates, 0.5)), sum(lasso) / sum(gates)
    return (
        Claim(equal, abs(share - 1) <= EQUAL, f"{share:.2f} to 1"),
        Claim(smaller, medians[0] < medians[1], f"{medians[0]:.2g} against {medians[1]:.2g}"),
    )
