"""Writes figures for pages and papers as SVG and PNG, in one style."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot

# Blue, orange, green, gray, red: told apart by color-blind readers, and by their lightness in
# print.
INK = ("#1f5fa8", "#d9730d", "#2c8a57", "#6b6b6b", "#b3261e")
WIDTH, HEIGHT = 5.2, 3.4  # inches: a column and a half
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "mathtext.fontset": "cm",
    "svg.hashsalt": "sparsegate",  # the same picture is the same file
}


def save_figure(draw: Callable[[Any], bool], path: Path) -> list[Path]:
    """Draws into an empty figure and writes it as SVG and PNG; nothing if `draw` returns False."""
    return save_plot(draw, path, size=(WIDTH, HEIGHT), look=LOOK, dpi=200)
