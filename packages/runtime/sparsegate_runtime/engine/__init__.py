"""Plans networks and lays out weights and memory for the C kernels."""

from . import network
from .functions import Function
from .image import image_of
from .image_parts import INSTRUCTION_SETS
from .kept import KeptArray, smaller
from .loaded import Image, Signature
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
from .memory import aligned, give_back, scratch
from .peak import peak
from .plan import Memory, Plan, ThreadMemory, run_arrays
from .planner import UnplannedError
from .spans import Span, chrome_trace
from .tensor import Tensor

__all__ = [
    "INSTRUCTION_SETS",
    "LANES",
    "LONG",
    "NEAR",
    "POINTER",
    "CRows",
    "CSlices",
    "Function",
    "Image",
    "KeptArray",
    "Memory",
    "Plan",
    "Rows",
    "Signature",
    "Slices",
    "Span",
    "Tensor",
    "ThreadMemory",
    "UnplannedError",
    "Weights",
    "aligned",
    "chrome_trace",
    "columns_in_block",
    "give_back",
    "image_of",
    "network",
    "peak",
    "run_arrays",
    "scratch",
    "smaller",
    "spread",
]
