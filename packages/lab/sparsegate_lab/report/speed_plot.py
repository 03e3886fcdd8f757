"""The plot of a comparison: speed-up over the batch, a panel for every number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.speed import BASELINE, OURS, Speed

PLOT_MISSING = "no plot: matplotlib is not installed; pip install 'sparsegate[plot]'"
ENDINGS = (".svg", ".png")


def plot_paths(path: Path) -> list[Path]:
    """Where the plot beside a record goes."""
    return [path.with_suffix(ending) for ending in ENDINGS]


def plot_speed(speed: Speed, path: Path) -> list[Path]:
    """Writes the plot beside a path, as SVG and as PNG, and says where; nothing where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return []
    threads = list(dict.fromkeys(timing.threads for timing in speed.timings))
    figure = Figure(figsize=(1 + 4.2 * len(threads), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, count in zip(
        figure.subplots(1, len(threads), squeeze=False, sharey=True)[0], threads, strict=True
    ):
        _panel(axes, speed, count)
    figure.suptitle(f"{speed.network}: times as fast as {BASELINE}")
    paths = plot_paths(path)
    for each in paths:
        figure.savefig(each, dpi=150, metadata={"Date": None} if each.suffix == ".svg" else None)
    return paths


def _panel(axes: Any, speed: Speed, threads: int) -> None:
    """One line an engine, ours the heavy one; both axes logarithmic, since a factor is a factor."""
    rows = [timing for timing in speed.timings if timing.threads == threads]
    for name in speed.engines:
        points = [(row.batch, row.over_baseline(name)) for row in rows if name in row.milliseconds]
        heavy = (
            {"linewidth": 2.5, "color": "black", "zorder": 3}
            if name == OURS
            else {"linewidth": 1.2}
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=name, **heavy)
    axes.set(
        xscale="log", yscale="log", xlabel="batch", title=f"{threads} thread{'s' * (threads > 1)}"
    )
    batches = sorted({row.batch for row in rows})
    axes.set_xticks(batches, labels=[str(batch) for batch in batches])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.yaxis.set_major_formatter("{x:g}x")
    axes.legend(fontsize="small")
