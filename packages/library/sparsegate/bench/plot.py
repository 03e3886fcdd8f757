"""Plots a speed comparison: speed-up against batch size, one panel per number of threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .record import BASELINE, OURS, Speed

PLOT_MISSING = "no plot: matplotlib is not installed; pip install 'sparsegate[plot]'"
PLOT_ENDINGS = (".svg", ".png")


def plot_paths(path: Path) -> list[Path]:
    """The files of the plot that belongs to a record's path."""
    return [path.with_suffix(ending) for ending in PLOT_ENDINGS]


def save_plot(
    draw: Callable[[Any], object],
    path: Path,
    *,
    size: tuple[float, float],
    look: dict[Any, Any] | None = None,
    dpi: int = 150,
) -> list[Path]:
    """Draws into an empty figure and writes it next to a path, as SVG and as PNG.

    Args:
        draw: Called with the figure; if it returns False, nothing is written.
        path: The files get this path, with other suffixes.
        size: Width and height in inches.
        look: Settings of matplotlib for this figure.
        dpi: Dots per inch of the PNG file.

    Returns:
        The files, or an empty list if nothing was drawn or matplotlib is not installed.

    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return []
    with mpl.rc_context(look or {}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        if draw(figure) is False:
            return []
        svg, png = paths = plot_paths(path)
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=dpi)
    return paths


def plot_speed(speed: Speed, path: Path) -> list[Path]:
    """Writes the plot next to a path and returns its files; none if matplotlib is missing."""
    threads = list(dict.fromkeys(timing.threads for timing in speed.timings))

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(threads), squeeze=False, sharey=True)[0]
        for axes, count in zip(panels, threads, strict=True):
            _panel(axes, speed, count)
        figure.suptitle(f"{speed.network}: times as fast as {BASELINE}")

    return save_plot(draw, path, size=(1 + 4.2 * len(threads), 4.0))


def _panel(axes: Any, speed: Speed, threads: int) -> None:
    """One line per engine, ours in bold; both axes are logarithmic."""
    rows = [timing for timing in speed.timings if timing.threads == threads]
    for name in speed.engines:
        points = [(row.batch, row.over_baseline(name)) for row in rows if name in row.milliseconds]
        ours = {"linewidth": 2.5, "color": "black", "zorder": 3}
        style = ours if name == OURS else {"linewidth": 1.2}
        axes.plot(*zip(*points, strict=True), marker="o", label=name, **style)
    title = f"{threads} thread" if threads == 1 else f"{threads} threads"
    axes.set(xscale="log", yscale="log", xlabel="batch size", title=title)
    batches = sorted({row.batch for row in rows})
    axes.set_xticks(batches, labels=[str(batch) for batch in batches])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.yaxis.set_major_formatter("{x:g}x")
    axes.legend(fontsize="small")
