"""The plot of a comparison of methods: accuracy over kept weights, with spreads between seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot
from sparsegate_lab.comparison import DENSE, Comparison
from sparsegate_lab.record import Record

from .figure import INK, LOOK
from .rates_table import OURS

MARKERS = "osD^vP"


def plot_rates(comparison: Comparison, path: Path) -> list[Path]:
    """Writes the plot next to a path and returns its files; none if matplotlib is missing."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for index, method in enumerate(comparison.methods):
            _draw_method(axes, comparison, method, index)
        if dense := comparison.summary(DENSE, None, _test):
            axes.axhline(dense.mean, color="black", linestyle=":", linewidth=1, label=DENSE)
        axes.set(xscale="log", xlabel="weights kept", ylabel="test accuracy in per cent")
        axes.set_title(comparison.title, fontsize=10)
        axes.legend(loc="lower right", fontsize=8)

    return save_plot(draw, path, size=(7.2, 4.8), look=LOOK, dpi=200)


def _draw_method(axes: Any, comparison: Comparison, method: str, index: int) -> None:
    """A line through the means, with bars from the lowest to the highest seed."""
    kept, means, below, above = [], [], [], []
    for keep in comparison.keeps:
        weights = comparison.summary(method, keep, lambda record: record.kept)
        test = comparison.summary(method, keep, _test)
        if weights and test:
            kept.append(weights.mean)
            means.append(test.mean)
            below.append(test.mean - test.low)
            above.append(test.high - test.mean)
    ours = method == OURS
    axes.errorbar(
        kept,
        means,
        yerr=(below, above),
        color="black" if ours else INK[index % len(INK)],
        linewidth=2.2 if ours else 1.2,
        linestyle="-" if ours else ("--", "-.")[index // len(INK) % 2],
        marker=MARKERS[index % len(MARKERS)],
        markersize=4,
        capsize=2,
        zorder=3 if ours else 2,
        label=method,
    )


def _test(record: Record) -> float:
    return record.test
