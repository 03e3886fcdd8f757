"""Plots a comparison of methods: accuracy over kept weights, with spreads between seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot
from sparsegate_lab.comparison import DENSE, Comparison
from sparsegate_lab.record import Record

from .figure import INK, LOOK
from .rates_table import OURS

MARKERS = "osD^vP"
TICKS = (20, 50, 80, 90, 95, 97, 98, 99, 99.5, 99.8)


def plot_rates(comparison: Comparison, path: Path) -> list[Path]:
    """Writes the plot next to a path and returns its files; none without matplotlib."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for index, method in enumerate(comparison.methods):
            _draw_method(axes, comparison, method, index)
        if dense := comparison.summary(DENSE, None, _test):
            axes.axhline(dense.mean, color="black", linestyle=":", linewidth=1, label=DENSE)
        _set_scales(axes, comparison)
        axes.set_title(comparison.title, fontsize=10)
        figure.legend(loc="outside right center", fontsize=8)

    return save_plot(draw, path, size=(8.0, 4.4), look=LOOK, dpi=200)


def _set_scales(axes: Any, comparison: Comparison) -> None:
    """Sets logarithmic scales for weights and errors, which separates methods near the top."""
    axes.set_yscale("function", functions=(_height, _accuracy))
    heights = [float(_height(record.test)) for record in comparison.records()]
    low, high = (_accuracy(end) for end in (min(heights) - 0.06, max(heights) + 0.06))
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in TICKS if low <= tick <= high])
    axes.set_yticklabels([f"{tick:g}" for tick in axes.get_yticks()])
    axes.set(xscale="log", xlabel="weights kept", ylabel="test accuracy in percent")
    sizes = {record.total for record in comparison.records()}
    if len(sizes) == 1:
        (total,) = sizes
        axes.set_xticks([keep * total for keep in comparison.keeps])
        axes.set_xticklabels([f"{keep * total:,.0f}\n{keep:.4g}" for keep in comparison.keeps])
        axes.minorticks_off()


def _height(accuracy: Any) -> Any:
    import numpy as np

    # Of 100.01 instead of 100, so that a perfect network has a place.
    return -np.log10(np.maximum(100.01 - accuracy, 1e-3))


def _accuracy(height: Any) -> Any:
    return 100.01 - 10.0**-height


def _draw_method(axes: Any, comparison: Comparison, method: str, index: int) -> None:
    """Draws a line through the means, with bars from the lowest to the highest seed."""
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
