"""Bytes of images as the numbers that a network takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Num
from torch import Tensor


@dataclass(frozen=True)
class Normalise:
    """Subtracts a mean and divides by a spread: one each for all, or one each for every colour.

    >>> Normalise((0.0, 10.0), (1.0, 5.0))(torch.full((1, 2, 1, 1), 20, dtype=torch.uint8)).flatten()
    tensor([20.,  2.])
    """

    mean: float | tuple[float, ...]
    spread: float | tuple[float, ...]

    def __call__(self, images: Num[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Bytes as numbers around zero."""
        numbers = images.to(torch.float32, copy=True)
        spread_out = _spread_out if torch.compiler.is_compiling() else _remembered
        return numbers.sub_(spread_out(self.mean, images.device)).div_(
            spread_out(self.spread, images.device)
        )


def _spread_out(value: float | tuple[float, ...], device: torch.device) -> float | Tensor:
    """A number for each colour, made on the device: a copy to a GPU would make every batch wait."""
    if not isinstance(value, tuple):
        return value
    return torch.stack([torch.full((1, 1), each, device=device) for each in value])


_remembered = cache(_spread_out)
