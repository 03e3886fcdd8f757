"""What a step of 8-bit values is worth at every place of a network, as an example shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .layer import Layer, Pool


@dataclass(frozen=True)
class Scale:
    """Values of 8 bits: whole numbers of steps, zero being zero."""

    step: float
    signed: bool

    @property
    def largest(self) -> int:
        """The largest number of steps."""
        return 127 if self.signed else 255

    @property
    def letter(self) -> str:
        """`s` or `u`, in the words of the C code."""
        return "s" if self.signed else "u"

    @property
    def c_type(self) -> str:
        """The type in C."""
        return f"{'signed' if self.signed else 'unsigned'} char"


@torch.no_grad()
def scales_of(layers: list[Layer], example: Tensor) -> list[Scale]:
    """Scales of the input and of what every layer but the last makes; rectified values have no sign.

    >>> from .layer import Linear
    >>> eye = Linear(torch.eye(2), torch.zeros(2), relu=True)
    >>> scales_of([eye, eye], torch.tensor([[-127.0, 25.5]])[:, :, None, None])
    [Scale(step=1.0, signed=True), Scale(step=0.1, signed=False)]
    """
    if not example.any():
        raise ValueError(
            "int8 takes its steps from the example, which is all zeros; pass images that are typical"
        )
    scales = [_scale(example, signed=bool((example < 0).any()))]
    for layer in layers[:-1]:
        example = layer.run(example)
        scales.append(
            scales[-1] if isinstance(layer, Pool) else _scale(example, signed=not layer.relu)
        )
    return scales


def _scale(values: Tensor, *, signed: bool) -> Scale:
    most = round(float(values.abs().max()), 12)  # a step is written with seven digits
    return Scale((most or 1.0) / (127 if signed else 255), signed)
