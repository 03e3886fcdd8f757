"""BatchNorm in eval, as a line over what comes in: a scale and a shift for every unit."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float64
from torch import Tensor


def scale_and_shift(norm: Any) -> tuple[Float64[Tensor, " units"], Float64[Tensor, " units"]]:
    """What a BatchNorm with running statistics multiplies every unit by, and what it adds then."""
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    scale = scale * norm.weight.detach() if norm.affine else scale
    shift = (norm.bias.detach() if norm.affine else 0) - norm.running_mean * scale
    return scale, shift
