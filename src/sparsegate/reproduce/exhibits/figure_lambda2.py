"""Figure 3c of the paper: sparsity over lambda2, the price of weights."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sparsegate.train import Run

from ..exhibit import Exhibit, Studies
from ..findings import Findings
from ..recipes.fc1 import fc1_gated
from ..sweep import Curves, Sweep
from ..verdict import Claim


def claims(curves: Curves) -> tuple[Claim, ...]:
    """That sparsity rises with the price, at every step of both curves."""
    threshold, sample = curves.sparsities()
    rising = all(before < after for curve in (threshold, sample) for before, after in pairwise(curve))
    evidence = f"{threshold[0]:.1f} to {threshold[-1]:.1f} % [T], {sample[0]:.1f} to {sample[-1]:.1f} % [S]"
    return (Claim("increasing lambda2 increases the sparsity", rising, evidence),)


SWEEP = Sweep(
    "lambda2, with lambda1 = 0",
    "$\\lambda_2$, with $\\lambda_1 = 0$",
    (0.0, 0.1, 0.25, 0.5, 1.0, 2.0),
    lambda value, draw: fc1_gated(count=value, draw=draw),
    claims,
)


@dataclass(frozen=True)
class FigureLambda2(Exhibit):
    """Several prices, each with both draws."""

    def title(self) -> str:
        """Where it stands and what it shows."""
        return "Figure 3c: sparsity of fc1 over lambda2"

    def plan(self) -> dict[str, Run[Any]]:
        """Two runs a price, of which four are the table's too."""
        return SWEEP.plan()

    def findings(self, studies: Studies) -> Findings:
        """The curves and the claims."""
        return SWEEP.findings(self.title(), studies)

    def draw(self, figure: Any, studies: Studies) -> bool:
        """The three curves."""
        return SWEEP.draw(figure, studies)
