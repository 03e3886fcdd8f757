"""Layers that run sparse on their own, and the swap that puts them into a copy of any model."""

from .attention import SparseAttention
from .conv import SparseConv
from .duplicate import duplicated, stand_in
from .linear import SparseLinear
from .padded_encoder import without_nested_tensors_
from .recurrent import SparseRecurrent
from .swap import Swap, sparse_form, swapped, without_parametrizations_
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
    "stand_in",
    "swapped",
    "without_nested_tensors_",
    "without_parametrizations_",
]
