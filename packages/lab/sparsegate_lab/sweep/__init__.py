"""Searches for good settings: many runs of one recipe, whose settings Optuna chooses."""

from .outcome import Outcome, SweepResult
from .search import OBJECTIVES, sweep
from .space import Choose, Vary, with_settings
from .table import plot_sweep, sweep_table

__all__ = [
    "OBJECTIVES",
    "Choose",
    "Outcome",
    "SweepResult",
    "Vary",
    "plot_sweep",
    "sweep",
    "sweep_table",
    "with_settings",
]
