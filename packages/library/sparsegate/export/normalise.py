"""Turns the bytes of images into a network's input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Num
from torch import Tensor


@dataclass(frozen=True)
class Normalise:
    """Subtracts a mean and divides by a spread; both are one number, or one per channel.

    >>> image = torch.full((1, 2, 1, 1), 20, dtype=torch.uint8)
    >>> Normalise((0.0, 10.0), (1.0, 5.0))(image).flatten()
    tensor([20.,  2.])
    """

    mean: float | tuple[float, ...]
    spread: float | tuple[float, ...]

    def __call__(self, images: Num[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The normalized images, in float32."""
        numbers = images.to(torch.float32, copy=True)
        per_channel = _per_channel if torch.compiler.is_compiling() else _cached_per_channel
        numbers.sub_(per_channel(self.mean, images.device))
        return numbers.div_(per_channel(self.spread, images.device))


UNIT_RANGE = Normalise(0.0, 255.0)
"""Bytes become numbers from 0 to 1."""


def _per_channel(value: float | tuple[float, ...], device: torch.device) -> float | Tensor:
    """One number per channel, created on the device: copying to a GPU would delay every batch."""
    if not isinstance(value, tuple):
        return value
    return torch.stack([torch.full((1, 1), number, device=device) for number in value])


_cached_per_channel = cache(_per_channel)
