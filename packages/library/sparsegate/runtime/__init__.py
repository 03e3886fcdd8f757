"""Runs networks with zeros: every layer dense or sparse, whichever was measured to be faster on this machine."""

from .any_model import choice_of, sparse
from .chain import VARIANT, Chain, Layer
from .choice import Choice, LayerChoice, load_choices, save_choices
from .cuda.linear import PackedLinear, pack
from .measure import interleaved, samples
from .network import SparseNetwork
from .save_network import SavedNetwork, save_network

__all__ = [
    "VARIANT",
    "Chain",
    "Choice",
    "Layer",
    "LayerChoice",
    "PackedLinear",
    "SavedNetwork",
    "SparseNetwork",
    "choice_of",
    "interleaved",
    "load_choices",
    "pack",
    "samples",
    "save_choices",
    "save_network",
    "sparse",
]
