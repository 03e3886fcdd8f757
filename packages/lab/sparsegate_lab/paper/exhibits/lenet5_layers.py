"""Table 1 of the paper: LeNet-5 layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

from .. import paper
from ..exhibit import Exhibit, Studies
from ..findings import Findings
from ..layer_rows import layer_checks, layer_rows
from ..printed import Printed
from ..verdict import Check, Claim, Tolerance

PARTS = {
    "conv1": slice(0, 1),
    "conv2": slice(1, 2),
    "fc1": slice(2, 3),
    "fc2": slice(3, 4),
    "total": slice(0, 4),
}
NAME = "lenet5-gates-18k"
SPARSITY = Tolerance(
    5.0,
    "points of sparsity, since one price over all layers divides the weights otherwise",
    "higher",
)
SIZE = Tolerance(
    1800.0, "weights, a tenth of the paper's: the price was chosen for this size", "lower"
)
ACCURACY = Tolerance(
    0.2, "points: two standard errors of an accuracy near 99.2 % on 10 000 images", "higher"
)


@dataclass(frozen=True)
class Lenet5Layers(Exhibit):
    """One run of learned gates at the paper's size."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Table 1: LeNet-5 layer by layer, at the paper's size"

    def plan(self) -> dict[str, Run[Any]]:
        """One run."""
        return {NAME: RECIPES[NAME]()}

    def findings(self, studies: Studies) -> Findings:
        """Returns the layers, the sparsities next to the printed ones, and the totals."""
        study = studies.get(NAME)
        checks = (*layer_checks(study, paper.LENET5_LAYERS, PARTS, SPARSITY), *_whole(study))
        notes = (
            "The paper does not define the scale of its prices. We use one price for every weight "
            "of the network. As a result, convolutions, whose weights are used at many positions, "
            "keep more weights than in the paper, and fc1 keeps fewer, at the same total.",
        )
        return Findings(
            self.title(),
            layer_rows(study, paper.LENET5_LAYERS, PARTS),
            checks,
            _claims(study),
            notes,
        )


def _whole(study: Study | None) -> tuple[Check, ...]:
    size, accuracy = (
        paper.LENET5_LAYERS.number("total", "final"),
        paper.LENET5_COMPARE.number("Method-1", "accuracy"),
    )
    assert isinstance(size, Printed)
    assert isinstance(accuracy, Printed)
    kept = None if study is None else study.summary(lambda record: record.kept)
    test = None if study is None else study.summary(lambda record: record.test)
    return (Check(size, kept, SIZE, digits=0), Check(accuracy, test, ACCURACY))


def _claims(study: Study | None) -> tuple[Claim, ...]:
    if study is None:
        return ()
    gone = study.summary(lambda record: 100 * (1 - record.kept / record.total))
    return (
        Claim(
            "about 96 % of LeNet-5's parameters can be removed",
            gone.mean >= 95.5,
            f"{gone.mean:.2f} %",
        ),
    )
