"""Layers that stand in for fully connected ones with fewer numbers."""

from .acdc import Acdc
from .circulant import Circulant
from .codebook import Codebook, check_codebook
from .cosine import Cosine
from .fastfood import Fastfood
from .hadamard import Hadamard
from .low_rank import LowRank
from .predicted import Predicted
from .replace import linears, replace_
from .resized import Resized
from .stand_in import StandIn
from .tensor_train import TensorTrain

__all__ = [
    "Acdc",
    "Circulant",
    "Codebook",
    "Cosine",
    "Fastfood",
    "Hadamard",
    "LowRank",
    "Predicted",
    "Resized",
    "StandIn",
    "TensorTrain",
    "check_codebook",
    "linears",
    "replace_",
]
