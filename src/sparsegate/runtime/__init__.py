"""Runs networks with zeros: every layer dense or sparse, whichever was measured to be faster on this machine."""

from .chain import VARIANT, Chain, Layer
from .choice import Choice, LayerChoice, load_choices, save_choices
from .measure import interleaved
from .network import SparseNetwork, sparse
from .triton_linear import PackedLinear, pack

__all__ = [
    "VARIANT",
    "Chain",
    "Choice",
    "Layer",
    "LayerChoice",
    "PackedLinear",
    "SparseNetwork",
    "interleaved",
    "load_choices",
    "pack",
    "save_choices",
    "sparse",
]
