"""What people look at: tables, plots and pages, made from records."""

from .comparison_page import comparison_page
from .run_page import run_page
from .speed_plot import PLOT_MISSING, plot_speed
from .speed_table import speed_table
from .table import aligned, layer_table, markdown, study_table
from .view import Baseline, Filters, Mask, NetworkView, TensorBits

__all__ = [
    "PLOT_MISSING",
    "Baseline",
    "Filters",
    "Mask",
    "NetworkView",
    "TensorBits",
    "aligned",
    "comparison_page",
    "layer_table",
    "markdown",
    "plot_speed",
    "run_page",
    "speed_table",
    "study_table",
]
