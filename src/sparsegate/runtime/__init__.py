"""Runs networks with zeros: every layer dense or sparse, whichever was measured to be faster on this machine."""

from .chain import VARIANT, Chain, Layer
from .choice import Choice, LayerChoice, load_choices, save_choices
from .measure import interleaved
from .network import SparseNetwork, sparse

__all__ = [
    "VARIANT",
    "Chain",
    "Choice",
    "Layer",
    "LayerChoice",
    "SparseNetwork",
    "interleaved",
    "load_choices",
    "save_choices",
    "sparse",
]
