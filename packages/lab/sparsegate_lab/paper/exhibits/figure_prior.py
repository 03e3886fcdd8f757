"""Figure 2b of the paper: the density of the spike-and-slab prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK

from ..exhibit import Exhibit, Studies
from ..findings import Findings

MIX, SPREAD, BOUND, SPIKE = 0.5, 1.0, 3.0, 0.02
"""alpha, sigma and k of the prior, and the width that stands for the spike's, which has none."""
STEPS = 1201
WEIGHTS = [BOUND * (2 * place / (STEPS - 1) - 1) for place in range(STEPS)]


def slab(weight: float) -> float:
    """N(w | 0, sigma^2) to the power 1 - alpha, not normalised."""
    return math.exp(-(1 - MIX) * weight**2 / (2 * SPREAD**2))


def prior(weight: float) -> float:
    """exp(-(1 - delta(w)))^alpha * N(w | 0, sigma^2)^(1 - alpha) with delta as one within the spike's width."""
    is_zero = abs(weight) <= SPIKE
    return math.exp(-MIX * (1 - is_zero)) * slab(weight)


def normaliser() -> float:
    """Z: the integral over [-k, k], in which the spike of no width has no part."""
    step = WEIGHTS[1] - WEIGHTS[0]
    return step * sum(math.exp(-MIX) * slab(weight) for weight in WEIGHTS)


@dataclass(frozen=True)
class FigurePrior(Exhibit):
    """One density with its two parts."""

    def title(self) -> str:
        """Where it stands and what it shows."""
        return "Figure 2b: the spike-and-slab prior"

    def findings(self, studies: Studies) -> Findings:
        """The density; the paper prints no numbers of it."""
        total = normaliser()
        points = {"weight": WEIGHTS, "density": [prior(weight) / total for weight in WEIGHTS]}
        notes = (
            f"alpha = {MIX:g}, sigma = {SPREAD:g}, weights in [-{BOUND:g}, {BOUND:g}]. The spike has no width and is "
            f"drawn as an arrow. It raises the density of zero by the factor exp(alpha) = {math.exp(MIX):.2f}, "
            "whatever the size of the weights: minus the logarithm is alpha times the number of weights that are not "
            "zero, and a square of their values.",
        )
        return Findings(self.title(), notes=notes, points=points)

    def draw(self, figure: Any, studies: Studies) -> bool:
        """The slab as an area, the spike as an arrow."""
        axes = figure.subplots()
        total = normaliser()
        heights = [math.exp(-MIX) * slab(weight) / total for weight in WEIGHTS]
        axes.fill_between(WEIGHTS, heights, color=INK[0], alpha=0.18, linewidth=0)
        axes.plot(WEIGHTS, heights, color=INK[0])
        top = prior(0.0) / total
        axes.annotate(
            "",
            (0, top),
            xytext=(0, max(heights)),
            arrowprops={"arrowstyle": "-|>", "color": INK[1], "lw": 2.2},
        )
        axes.text(0.12, top * 0.97, "spike: removed weights", color=INK[1], va="top")
        axes.text(-0.9, 0.08, "slab: kept weights", color=INK[0])
        axes.set(
            xlabel="weight $w$", ylabel="density $P(w)$", xlim=(-BOUND, BOUND), ylim=(0, top * 1.08)
        )
        return True
