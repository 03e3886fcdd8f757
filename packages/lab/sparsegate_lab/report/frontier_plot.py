"""Plots a frontier: accuracy over weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot
from sparsegate_lab.study import Study


def plot_frontier(study: Study, path: Path) -> list[Path]:
    """Writes the plot next to a path and returns its files; none without matplotlib."""

    def draw(figure: Any) -> None:
        axes, best = figure.subplots(), study.frontier()
        kept, test = zip(*((each.kept, each.test) for each in study.records), strict=True)
        axes.plot(kept, test, "o", alpha=0.4)
        kept, test = zip(*((each.kept, each.test) for each in best), strict=True)
        axes.plot(kept, test, "o-", color="black", label="best by validation")
        axes.set(
            xscale="log", xlabel="weights", ylabel="test accuracy in percent", title=study.title
        )
        axes.grid(visible=True, alpha=0.3)
        axes.legend(loc="lower right")

    return save_plot(draw, path, size=(6.4, 4.2))
