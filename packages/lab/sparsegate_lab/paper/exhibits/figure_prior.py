"""Figure 2b of the paper: the density of the spike-and-slab prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK

from ..exhibit import Exhibit, Studies
from ..findings import Findings

MIX, SPREAD, BOUND, SPIKE = 0.5, 1.0, 3.0, 0.02
"""The prior's alpha, sigma and k, and the width with which the spike is drawn."""
STEPS = 1201
WEIGHTS = [BOUND * (2 * place / (STEPS - 1) - 1) for place in range(STEPS)]


def slab(weight: float) -> float:
    """Returns N(w | 0, sigma^2) to the power 1 - alpha, not normalized."""
    return math.exp(-(1 - MIX) * weight**2 / (2 * SPREAD**2))


def prior(weight: float) -> float:
    """Returns exp(-(1 - delta(w)))^alpha * N(w | 0, sigma^2)^(1 - alpha); delta has a width."""
    is_zero = abs(weight) <= SPIKE
    return math.exp(-MIX * (1 - is_zero)) * slab(weight)


def normaliser() -> float:
    """Returns Z, the integral over [-k, k]; a spike without width adds nothing to it."""
    step = WEIGHTS[1] - WEIGHTS[0]
    return step * sum(math.exp(-MIX) * slab(weight) for weight in WEIGHTS)


@dataclass(frozen=True)
class FigurePrior(Exhibit):
    """Draws one density and its two parts."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Figure 2b: the spike-and-slab prior"

    def findings(self, studies: Studies) -> Findings:
        """Returns the density; the paper prints no numbers for it."""
        total = normaliser()
        points = {"weight": WEIGHTS, "density": [prior(weight) / total for weight in WEIGHTS]}
        notes = (
            f"alpha = {MIX:g}, sigma = {SPREAD:g}, weights in [-{BOUND:g}, {BOUND:g}]. The spike "
            "has no width and is drawn as an arrow. It multiplies the density at zero by "
            f"exp(alpha) = {math.exp(MIX):.2f}. The negative logarithm of the prior is alpha times "
            "the number of nonzero weights, plus a term in their squares.",
        )
        return Findings(self.title(), notes=notes, points=points)

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws the slab as an area and the spike as an arrow."""
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
