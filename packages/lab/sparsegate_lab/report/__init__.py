"""What people look at: tables, plots and pages, made from records."""

from .comparison_page import comparison_page
from .figure import INK, save_figure
from .frontier_plot import plot_frontier
from .frontier_table import comma_separated, frontier_table
from .network_view import Baseline, Filters, Mask, NetworkView, TensorBits
from .run_page import run_page
from .table import layer_table, study_table
from .weight_histogram import draw_sizes, mean_sizes, quantile

__all__ = [
    "INK",
    "Baseline",
    "Filters",
    "Mask",
    "NetworkView",
    "TensorBits",
    "comma_separated",
    "comparison_page",
    "draw_sizes",
    "frontier_table",
    "layer_table",
    "mean_sizes",
    "plot_frontier",
    "quantile",
    "run_page",
    "save_figure",
    "study_table",
]
