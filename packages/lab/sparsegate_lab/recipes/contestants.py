"""Methods that keep a given fraction of the weights, by name, for comparisons."""

from __future__ import annotations

from collections.abc import Callable

from sparsegate.target import Target
from sparsegate_lab.method import Method
from sparsegate_lab.methods import (
    GSM,
    ST3,
    Alternating,
    Feather,
    GradualMagnitude,
    LearnedGates,
    LearnedThresholds,
    Magnitude,
    RigL,
)
from sparsegate_runtime.registry import Registry

CONTESTANTS: Registry[Callable[[float], Method]] = Registry(
    "method with a keep",
    {
        "learned_gates": lambda keep: LearnedGates(target=Target(keep=keep)),
        "gradual_magnitude": lambda keep: GradualMagnitude(keep=keep),
        "gradual_magnitude-layer": lambda keep: GradualMagnitude(keep=keep, rank="layer"),
        "gradual_magnitude-lamp": lambda keep: GradualMagnitude(keep=keep, rank="lamp"),
        "magnitude": lambda keep: Magnitude(keep=keep),
        "st3": lambda keep: ST3(keep=keep),
        "feather": lambda keep: Feather(keep=keep),
        "learned_thresholds": lambda keep: LearnedThresholds(keep=keep),
        "rigl": lambda keep: RigL(keep=keep),
        "alternating": lambda keep: Alternating(keep=keep),
        "gsm": lambda keep: GSM(keep=keep),
    },
)
"""Functions of `keep`; each method has its default settings otherwise."""
