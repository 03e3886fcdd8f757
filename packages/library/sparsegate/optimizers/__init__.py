"""Optimizers of weights and gates, which share one step rule."""

from typing import Any

from .gate_optimizer import GateOptimizer
from .gate_sgd import GateSGD
from .gated_adamw import GatedAdamW
from .gated_sgd import GatedSGD, take_over_
from .step import add_scaled_, step_gate_, step_weight_

__all__ = [
    "GateOptimizer",
    "GateSGD",
    "GatedAdamW",
    "GatedSGD",
    "add_scaled_",
    "step_gate_",
    "step_weight_",
    "take_over_",
]

KERNELS = ("next_gate", "next_weight")
"""Functions in Triton's language for kernels of other rooms; importing one imports Triton."""


def __getattr__(name: str) -> Any:
    if name not in KERNELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import kernels

    return getattr(kernels, name)
