"""sparsegate trains neural networks that are sparse: a learned gate on every weight."""

from sparsegate.gates import (
    Census,
    ClosedLayer,
    Constant,
    Gate,
    LargestWeights,
    Sample,
    Select,
    Threshold,
    average,
    finish,
    gate,
    gates,
    weights,
)
from sparsegate.optimizer import GateSGD
from sparsegate.penalty import Penalty
from sparsegate.schedule import cosine, ramp

__version__ = "0.1.0"

__all__ = [
    "Census",
    "ClosedLayer",
    "Constant",
    "Gate",
    "GateSGD",
    "LargestWeights",
    "Penalty",
    "Sample",
    "Select",
    "Threshold",
    "average",
    "cosine",
    "finish",
    "gate",
    "gates",
    "ramp",
    "weights",
]
