"""Ways to make a network smaller, by name."""

from __future__ import annotations

from sparsegate.method import Method
from sparsegate.registry import Registry

from .acdc import Acdc
from .circulant import Circulant
from .dense import Dense
from .fastfood import Fastfood
from .learned_gates import LearnedGates
from .neuron import Neuron
from .predicted import Predicted
from .product_quantised import ProductQuantised
from .svd import Svd
from .tensor_train import TensorTrain

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "learned_gates": LearnedGates,
        "dense": Dense,
        "svd": Svd,
        "fastfood": Fastfood,
        "acdc": Acdc,
        "neuron": Neuron,
        "tensor_train": TensorTrain,
        "circulant": Circulant,
        "predicted": Predicted,
        "product_quantised": ProductQuantised,
    },
)

__all__ = [
    "METHODS",
    "Acdc",
    "Circulant",
    "Dense",
    "Fastfood",
    "LearnedGates",
    "Neuron",
    "Predicted",
    "ProductQuantised",
    "Svd",
    "TensorTrain",
]
