"""Ways to make a network smaller, by name."""

from __future__ import annotations

from sparsegate_lab.method import Method
from sparsegate_runtime.registry import Registry

from .acdc import Acdc
from .alternating import Alternating
from .architecture import Architecture
from .circulant import Circulant
from .collins_kohli import CollinsKohli
from .dense import Dense
from .fastfood import Fastfood
from .feather import Feather
from .gradual_magnitude import GradualMagnitude
from .gsm import GSM
from .lasso import Lasso
from .learned_gates import LearnedGates
from .learned_thresholds import LearnedThresholds
from .magnitude import Magnitude
from .neuron import Neuron
from .obd import OBD
from .obs import OBS
from .predicted import Predicted
from .product_quantised import ProductQuantised
from .rigl import RigL
from .sparse_vd import SparseVD
from .st3 import ST3
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
        "magnitude": Magnitude,
        "collins_kohli": CollinsKohli,
        "lasso": Lasso,
        "obd": OBD,
        "obs": OBS,
        "architecture": Architecture,
        "sparse_vd": SparseVD,
        "gsm": GSM,
        "alternating": Alternating,
        "feather": Feather,
        "gradual_magnitude": GradualMagnitude,
        "learned_thresholds": LearnedThresholds,
        "rigl": RigL,
        "st3": ST3,
    },
)

__all__ = [
    "GSM",
    "METHODS",
    "OBD",
    "OBS",
    "ST3",
    "Acdc",
    "Alternating",
    "Architecture",
    "Circulant",
    "CollinsKohli",
    "Dense",
    "Fastfood",
    "Feather",
    "GradualMagnitude",
    "Lasso",
    "LearnedGates",
    "LearnedThresholds",
    "Magnitude",
    "Neuron",
    "Predicted",
    "ProductQuantised",
    "RigL",
    "SparseVD",
    "Svd",
    "TensorTrain",
]
