"""Ways to make a network smaller, by name."""

from __future__ import annotations

from sparsegate.method import Method
from sparsegate.registry import Registry

from .dense import Dense
from .learned_gates import LearnedGates
from .magnitude import Magnitude
from .sparse_vd import SparseVD

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "learned_gates": LearnedGates,
        "dense": Dense,
        "magnitude": Magnitude,
        "sparse_vd": SparseVD,
    },
)

__all__ = [
    "METHODS",
    "Dense",
    "LearnedGates",
    "Magnitude",
    "SparseVD",
]
