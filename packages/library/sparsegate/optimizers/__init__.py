"""Optimisers of weights and gates, which share one step rule."""

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
