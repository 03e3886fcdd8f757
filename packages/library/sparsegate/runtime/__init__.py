"""Runs networks with zeros: every layer dense or sparse, whichever was measured to be faster on this machine."""

from .chain import VARIANT, Chain, Layer
from .choice import Choice, LayerChoice, load_choices, save_choices
from .comparison import Outcome, timings
from .cuda.linear import PackedLinear, pack
from .measure import interleaved
from .network import SparseNetwork, sparse
from .rivals import RIVALS, Forward, Rival, write_onnx

__all__ = [
    "RIVALS",
    "VARIANT",
    "Chain",
    "Choice",
    "Forward",
    "Layer",
    "LayerChoice",
    "Outcome",
    "PackedLinear",
    "Rival",
    "SparseNetwork",
    "interleaved",
    "load_choices",
    "pack",
    "save_choices",
    "sparse",
    "timings",
    "write_onnx",
]
