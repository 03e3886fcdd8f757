"""What people look at: tables and plots, made from records."""

from .frontier_plot import plot_frontier
from .frontier_table import comma_separated, frontier_table
from .speed_plot import PLOT_MISSING, plot_speed
from .speed_table import speed_table
from .table import aligned, layer_table, markdown, study_table

__all__ = [
    "PLOT_MISSING",
    "aligned",
    "comma_separated",
    "frontier_table",
    "layer_table",
    "markdown",
    "plot_frontier",
    "plot_speed",
    "speed_table",
    "study_table",
]
