"""Layers that run sparse on their own, and the swap that puts them into a copy of any model."""

from .attention import SparseAttention
from .conv import SparseConv
from .duplicate import duplicated
from .linear import SparseLinear
from .recurrent import SparseRecurrent
from .swap import Swap, sparse_form, swapped
from .transposed import SparseTransposed

__all__ = [
    "SparseAttention",
    "SparseConv",
    "SparseLinear",
    "SparseRecurrent",
    "SparseTransposed",
    "Swap",
    "duplicated",
    "sparse_form",
    "swapped",
]
