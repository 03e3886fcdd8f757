"""How the layers of a model are connected, and what follows from it."""

from .chain import Chain, Example, Layer, find_chains, inputs_of, trace, unchecked
from .deadpaths import Removed, evaluating, is_same, outputs, remove_dead_paths
from .layer_consumers import linear_readers
from .order import order_units_
from .own_copy import copied
from .shrink import shrink
from .step import Norm, is_hooked, module_of, operation, reads_shape

__all__ = [
    "Chain",
    "Example",
    "Layer",
    "Norm",
    "Removed",
    "copied",
    "evaluating",
    "find_chains",
    "inputs_of",
    "is_hooked",
    "is_same",
    "linear_readers",
    "module_of",
    "operation",
    "order_units_",
    "outputs",
    "reads_shape",
    "remove_dead_paths",
    "shrink",
    "trace",
    "unchecked",
]
