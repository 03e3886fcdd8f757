"""What people look at: tables and plots, made from records."""

from .speed_plot import PLOT_MISSING, plot_speed
from .speed_table import speed_table
from .table import aligned, layer_table, markdown, study_table

__all__ = ["PLOT_MISSING", "aligned", "layer_table", "markdown", "plot_speed", "speed_table", "study_table"]
