"""What people look at: tables, plots and pages, made from records."""

from .comparison_page import comparison_page
from .figure import INK, save_figure
from .frontier_plot import plot_frontier
from .frontier_table import comma_separated, frontier_table
from .network_view import Baseline, Filters, Mask, NetworkView, TensorBits
from .run_page import run_page
from .speed_plot import ENDINGS, PLOT_MISSING, plot_paths, plot_speed
from .speed_table import speed_table
from .table import aligned, layer_table, markdown, study_table
from .weight_histogram import draw_sizes, mean_sizes, quantile

__all__ = [
    "ENDINGS",
    "INK",
    "PLOT_MISSING",
    "Baseline",
    "Filters",
    "Mask",
    "NetworkView",
    "TensorBits",
    "aligned",
    "comma_separated",
    "comparison_page",
    "draw_sizes",
    "frontier_table",
    "layer_table",
    "markdown",
    "mean_sizes",
    "plot_frontier",
    "plot_paths",
    "plot_speed",
    "quantile",
    "run_page",
    "save_figure",
    "speed_table",
    "study_table",
]
