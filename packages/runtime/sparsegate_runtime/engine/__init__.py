"""Lays out weights and memory for the C kernels."""

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

__all__ = [
    "LANES",
    "LONG",
    "NEAR",
    "POINTER",
    "CRows",
    "CSlices",
    "Rows",
    "Slices",
    "Weights",
    "aligned",
    "columns_in_block",
    "scratch",
    "spread",
]
