"""Figure 2a of the paper: the bimodal price of a gate beside the quadratic one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsegate_lab.report import INK

from ..exhibit import Exhibit, Studies
from ..findings import Findings

POINTS = [place / 100 for place in range(101)]


@dataclass(frozen=True)
class FigureRegulariser(Exhibit):
    """Draws two curves over one gate."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Figure 2a: the bimodal regulariser beside the quadratic one"

    def findings(self, studies: Studies) -> Findings:
        """Returns the two curves; the paper prints no numbers for them."""
        points = {
            "gate": POINTS,
            "g(1-g)": [g * (1 - g) for g in POINTS],
            "g^2": [g * g for g in POINTS],
        }
        notes = (
            "g(1-g) is zero at 0 and 1 and largest (0.25) at 0.5, so it pushes a gate to the "
            "nearer end. A quadratic penalty pushes every gate to zero; all of them may end below "
            "0.5.",
        )
        return Findings(self.title(), notes=notes, points=points)

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws both curves over the gate's range, with the direction of their push."""
        axes = figure.subplots()
        bimodal, square = [g * (1 - g) for g in POINTS], [g * g for g in POINTS]
        axes.plot(POINTS, bimodal, color=INK[0], label="bimodal, $g\\,(1-g)$")
        axes.plot(POINTS, square, color=INK[3], linestyle="--", label="quadratic, $g^2$")
        axes.axvline(0.5, color=INK[3], linewidth=0.8, linestyle=":")
        axes.annotate(
            "threshold",
            (0.5, 0.96),
            xytext=(4, 0),
            textcoords="offset points",
            color=INK[3],
            fontsize=9,
        )
        for begin, end in ((0.42, 0.22), (0.58, 0.78)):
            height = begin * (1 - begin)
            axes.annotate(
                "",
                (end, end * (1 - end) + 0.045),
                xytext=(begin, height + 0.045),
                arrowprops={"arrowstyle": "->", "color": INK[0], "connectionstyle": "arc3,rad=0"},
            )
        axes.set(xlabel="gate $g$", ylabel="price", xlim=(0, 1), ylim=(0, 1))
        axes.legend(loc="upper left")
        return True
