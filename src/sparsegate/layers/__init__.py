"""Layers that stand in for fully connected ones with fewer numbers."""

from .acdc import Acdc
from .circulant import Circulant
from .cosine import Cosine
from .fastfood import Fastfood
from .hadamard import Hadamard
from .low_rank import LowRank
from .replace import linears, replace_
from .resized import Resized
from .stand_in import StandIn
from .tensor_train import TensorTrain

__all__ = [
    "Acdc",
    "Circulant",
    "Cosine",
    "Fastfood",
    "Hadamard",
    "LowRank",
    "Resized",
    "StandIn",
    "TensorTrain",
    "linears",
    "replace_",
]
