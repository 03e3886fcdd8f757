"""The plot of a frontier: accuracy over weights."""

from __future__ import annotations

from pathlib import Path

from sparsegate_lab.study import Study

from .speed_plot import ENDINGS


def plot_frontier(study: Study, path: Path) -> list[Path]:
    """Writes the plot beside a path, as SVG and as PNG, and says where; nothing where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return []
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    best = study.frontier()
    axes.plot(
        [each.kept for each in study.records],
        [each.test for each in study.records],
        "o",
        alpha=0.4,
    )
    axes.plot(
        [each.kept for each in best],
        [each.test for each in best],
        "o-",
        color="black",
        label="best by validation",
    )
    axes.set(xscale="log", xlabel="weights", ylabel="test accuracy in per cent", title=study.title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right")
    paths = [path.with_suffix(ending) for ending in ENDINGS]
    for each in paths:
        figure.savefig(each, dpi=150, metadata={"Date": None} if each.suffix == ".svg" else None)
    return paths
