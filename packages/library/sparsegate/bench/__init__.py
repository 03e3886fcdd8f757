"""Times a network in several inference engines, side by side."""

from .engines import ENGINES, Engine, Forward, write_onnx
from .given import Flat, Given, first_tensor
from .plot import PLOT_ENDINGS, PLOT_MISSING, plot_paths, plot_speed, save_plot
from .provenance import machine, versions
from .record import BASELINE, NOISY, OURS, Speed, Timing, speed_table
from .timings import Outcome, timings

__all__ = [
    "BASELINE",
    "ENGINES",
    "NOISY",
    "OURS",
    "PLOT_ENDINGS",
    "PLOT_MISSING",
    "Engine",
    "Flat",
    "Forward",
    "Given",
    "Outcome",
    "Speed",
    "Timing",
    "first_tensor",
    "machine",
    "plot_paths",
    "plot_speed",
    "save_plot",
    "speed_table",
    "timings",
    "versions",
    "write_onnx",
]
