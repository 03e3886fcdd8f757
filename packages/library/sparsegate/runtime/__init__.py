"""Runs sparse networks: each layer runs dense or sparse, whichever was faster on this machine."""

from .any_model import choice_of, sparse
from .chain import VARIANT, Chain
from .chain_layer import ChainLayer
from .choice import Choice, LayerChoice, load_choices, save_choices
from .cuda.linear import PackedLinear, pack
from .in_browser import image_of_model, save_image, to_web_page
from .measure import interleaved, samples
from .network import SparseNetwork
from .save_network import SavedNetwork, save_network
from .translate import Call, Rule, Translator, translated

__all__ = [
    "VARIANT",
    "Call",
    "Chain",
    "ChainLayer",
    "Choice",
    "LayerChoice",
    "PackedLinear",
    "Rule",
    "SavedNetwork",
    "SparseNetwork",
    "Translator",
    "choice_of",
    "image_of_model",
    "interleaved",
    "load_choices",
    "pack",
    "samples",
    "save_choices",
    "save_image",
    "save_network",
    "sparse",
    "to_web_page",
    "translated",
]
