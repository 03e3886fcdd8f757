"""Plans networks and lays out weights and memory for the C kernels."""

from . import network
from .functions import Function
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
from .peak import peak
from .plan import Memory, Plan, run_arrays
from .planner import UnplannedError
from .spans import Span, chrome_trace
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
    "Span",
    "Tensor",
    "UnplannedError",
    "Weights",
    "aligned",
    "chrome_trace",
    "columns_in_block",
    "network",
    "peak",
    "run_arrays",
    "scratch",
    "spread",
]
