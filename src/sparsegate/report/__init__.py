"""What people look at: tables and plots, made from records."""

from .figure import INK, save_figure
from .sizes import draw_sizes, mean_sizes, quantile
from .speed_plot import PLOT_MISSING, plot_speed
from .speed_table import speed_table
from .table import aligned, layer_table, markdown, study_table

__all__ = [
    "INK",
    "PLOT_MISSING",
    "aligned",
    "draw_sizes",
    "layer_table",
    "markdown",
    "mean_sizes",
    "plot_speed",
    "quantile",
    "save_figure",
    "speed_table",
    "study_table",
]
