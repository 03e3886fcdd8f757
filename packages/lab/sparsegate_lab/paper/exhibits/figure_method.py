"""Figure 1 of the paper: the block diagram of the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegate_lab.report import INK

from ..exhibit import Exhibit, Studies
from ..findings import Findings

SHAPE = (6, 6)
SIZE = 0.155  # of a matrix, as a fraction of the figure's width
UPPER, LOWER, MIDDLE = 0.57, 0.09, 0.33  # heights of the three rows' lower edges
ASPECT = 2.2


@dataclass(frozen=True)
class FigureMethod(Exhibit):
    """Shows how gates become a mask that selects weights."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Figure 1: from weights and gates to a sparse matrix"

    def findings(self, studies: Studies) -> Findings:
        """Returns the numbers of the drawn matrices, row by row."""
        notes = (
            "The draw turns gates G into a binary mask, by a threshold of 0.5 or with probability "
            "G. The mask times W is the sparse matrix of the layer. In the backward pass, the "
            "draw is treated as the identity.",
        )
        weights, gates, mask = _matrices()
        drawn = {
            "weight": weights,
            "gate": gates,
            "mask": mask,
            "sparse weight": np.where(mask, weights, 0),
        }
        points = {
            name: [round(float(each), 4) for each in matrix.flat] for name, matrix in drawn.items()
        }
        return Findings(self.title(), notes=notes, points=points)

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws two matrices on the left, the mask between them, and their product on the right."""
        figure.set_layout_engine("none")
        figure.set_size_inches(8.0, 8.0 / ASPECT)
        weights, gates, mask = _matrices()
        canvas = figure.add_axes((0, 0, 1, 1))
        canvas.set(xlim=(0, 1), ylim=(0, 1))
        canvas.axis("off")
        _matrix(figure, 0.03, UPPER, weights, "$W$", "weights")
        _matrix(
            figure,
            0.03,
            LOWER,
            gates,
            "$G$",
            "gates in [0, 1]",
            between=(0.0, 1.0),
            colours="Greys",
        )
        _matrix(
            figure,
            0.46,
            LOWER,
            mask,
            "$G^s$",
            "mask of 0 and 1",
            between=(0.0, 1.0),
            colours="Greys",
        )
        _matrix(figure, 0.80, MIDDLE, np.where(mask, weights, np.nan), "$W^s$", "sparse weights")
        _wires(canvas)
        return True


def _matrices() -> tuple[Any, Any, Any]:
    """Returns weights, their gates and the mask."""
    random = np.random.default_rng(3)
    weights = random.normal(size=SHAPE)
    # Large weights tend to have open gates, as after training.
    gates = np.clip(0.62 * np.abs(weights) - 0.12 + 0.16 * random.normal(size=SHAPE), 0, 1)
    return weights, gates, gates > 0.5


def _matrix(
    figure: Any,
    left: float,
    bottom: float,
    values: Any,
    name: str,
    about: str,
    *,
    between: tuple[float, float] = (-2.4, 2.4),
    colours: str = "RdBu_r",
) -> None:
    axes = figure.add_axes((left, bottom, SIZE, SIZE * ASPECT))
    axes.imshow(values, cmap=colours, vmin=between[0], vmax=between[1])
    axes.set_xticks([place - 0.5 for place in range(1, SHAPE[1])], labels=[])
    axes.set_yticks([place - 0.5 for place in range(1, SHAPE[0])], labels=[])
    axes.tick_params(length=0)
    axes.grid(visible=True, color="white", alpha=1.0, linewidth=1.2)
    for side in axes.spines.values():
        side.set(visible=True, color=INK[3])
    axes.set_title(name, fontsize=13, pad=4)
    axes.set_xlabel(about, fontsize=9, labelpad=3)


def _wires(canvas: Any) -> None:
    """Draws the box of the draw, the circle of the product, and the arrows between them."""
    upper, lower, middle = (bottom + SIZE * ASPECT / 2 for bottom in (UPPER, LOWER, MIDDLE))
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": INK[0]}
    canvas.text(
        0.325,
        lower,
        "threshold\nor sample",
        ha="center",
        va="center",
        fontsize=10,
        color=INK[0],
        bbox=box,
    )
    _arrow(canvas, (0.19, lower), (0.255, lower))
    _arrow(canvas, (0.395, lower), (0.455, lower))
    circle = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": INK[0]}
    canvas.text(
        0.715, middle, "$\\odot$", ha="center", va="center", fontsize=15, color=INK[0], bbox=circle
    )
    _arrow(canvas, (0.19, upper), (0.695, middle + 0.05))
    _arrow(canvas, (0.62, lower), (0.695, middle - 0.05))
    _arrow(canvas, (0.745, middle), (0.795, middle))
    back = {
        "arrowstyle": "->",
        "color": INK[1],
        "linestyle": "--",
        "connectionstyle": "arc3,rad=-0.25",
    }
    canvas.annotate("", (0.19, lower - 0.1), xytext=(0.455, lower - 0.1), arrowprops=back)
    canvas.text(0.325, lower - 0.225, "straight through", ha="center", fontsize=9, color=INK[1])


def _arrow(canvas: Any, begin: tuple[float, float], end: tuple[float, float]) -> None:
    canvas.annotate(
        "", end, xytext=begin, arrowprops={"arrowstyle": "-|>", "color": INK[3], "linewidth": 1.4}
    )
