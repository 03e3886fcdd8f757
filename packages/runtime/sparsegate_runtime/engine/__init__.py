"""Plans networks and lays out weights and memory for the C kernels."""

from . import network
from .matrix import (
    LANES,
    LONG,
    NEAR,
    POINTER,
    CRows,
    CSlices,
    Rows,
    Slices,
    Weights,
    columns_in_block,
    spread,
)
from .memory import aligned, scratch
from .plan import Memory, Plan, run_arrays
from .planner import UnplannedError
from .structures import Function
from .tensor import Tensor

__all__ = [
    "LANES",
    "LONG",
    "NEAR",
    "POINTER",
    "CRows",
    "CSlices",
    "Function",
    "Memory",
    "Plan",
    "Rows",
    "Slices",
    "Tensor",
    "UnplannedError",
    "Weights",
    "aligned",
    "columns_in_block",
    "network",
    "run_arrays",
    "scratch",
    "spread",
]
