"""Turns records and the folders of runs into tables, plots and pages."""

from .comparison_page import comparison_page
from .figure import INK, save_figure
from .frontier_table import frontier_table, plot_frontier
from .network_view import Baseline, Filters, Mask, NetworkView, TensorBits
from .rates_plot import plot_rates
from .rates_table import rates_table
from .run_folder import PAGE, make_comparison, make_page
from .run_page import run_page
from .table import layer_table, save_with_tables, study_table
from .weight_histogram import draw_sizes, mean_sizes, quantile

__all__ = [
    "INK",
    "PAGE",
    "Baseline",
    "Filters",
    "Mask",
    "NetworkView",
    "TensorBits",
    "comparison_page",
    "draw_sizes",
    "frontier_table",
    "layer_table",
    "make_comparison",
    "make_page",
    "mean_sizes",
    "plot_frontier",
    "plot_rates",
    "quantile",
    "rates_table",
    "run_page",
    "save_figure",
    "save_with_tables",
    "study_table",
]
