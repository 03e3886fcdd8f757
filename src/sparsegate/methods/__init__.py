"""Ways to make a network smaller, by name."""

from __future__ import annotations

from sparsegate.method import Method
from sparsegate.registry import Registry

from .architecture import Architecture
from .collins_kohli import CollinsKohli
from .dense import Dense
from .gsm import GSM
from .lasso import Lasso
from .learned_gates import LearnedGates
from .magnitude import Magnitude
from .obd import OBD
from .obs import OBS
from .sparse_vd import SparseVD

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "learned_gates": LearnedGates,
        "dense": Dense,
        "magnitude": Magnitude,
        "collins_kohli": CollinsKohli,
        "lasso": Lasso,
        "obd": OBD,
        "obs": OBS,
        "architecture": Architecture,
        "sparse_vd": SparseVD,
        "gsm": GSM,
    },
)

__all__ = [
    "GSM",
    "METHODS",
    "OBD",
    "OBS",
    "Architecture",
    "CollinsKohli",
    "Dense",
    "Lasso",
    "LearnedGates",
    "Magnitude",
    "SparseVD",
]
