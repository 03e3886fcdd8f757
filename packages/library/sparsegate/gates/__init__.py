"""Puts gates on the weights of any model, counts them and takes them off."""

from .average import average
from .census import (
    UNDECIDED,
    Census,
    ClosedLayer,
    Reading,
    check_finite_gates,
    has_closed,
    histogram,
)
from .draw import OPEN_ABOVE, Draw, Sample, Threshold
from .finish import NothingRemoved, UnfinishedTarget, finish
from .freeze import freeze_mask
from .gate import Gate, where_open
from .graded import Graded, graded_
from .guard import Mover
from .install import check_finished, gate, gated_weights, gates, require_gates, unwrapped, weights
from .select import Select
from .start import Constant, LargestWeights, Nonzero, Start

__all__ = [
    "OPEN_ABOVE",
    "UNDECIDED",
    "Census",
    "ClosedLayer",
    "Constant",
    "Draw",
    "Gate",
    "Graded",
    "LargestWeights",
    "Mover",
    "Nonzero",
    "NothingRemoved",
    "Reading",
    "Sample",
    "Select",
    "Start",
    "Threshold",
    "UnfinishedTarget",
    "average",
    "check_finished",
    "check_finite_gates",
    "finish",
    "freeze_mask",
    "gate",
    "gated_weights",
    "gates",
    "graded_",
    "has_closed",
    "histogram",
    "require_gates",
    "unwrapped",
    "weights",
    "where_open",
]
