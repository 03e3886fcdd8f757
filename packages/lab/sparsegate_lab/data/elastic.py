"""Elastic distortion: small random changes that keep a digit readable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn import functional as F

from .augment import Augment

TURN, STRETCH, SLANT, MOVE = (
    math.radians(5),
    0.05,
    0.06,
    0.5,
)  # maxima for strength one; the last in pixels
BEND = 0.4  # standard deviation of a knot's shift, in pixels
KNOTS = 7  # per direction; the shift is interpolated between knots
PLAIN = 6  # numbers per image for all but the bending


@dataclass(frozen=True)
class Elastic(Augment):
    """Rotates, stretches, shears, moves and bends every image a little; new pixels are black."""

    strength: float = 1.0
    """1.0 rotates by up to 5 degrees, stretches by 5 %, shears by 6 %, moves by half a pixel.

    It bends by 0.4 pixels (standard deviation)."""

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "image numbers"]:
        """Angle, height, width, shear and shifts, in [-1, 1); then the shift of each knot."""
        plain = 2 * torch.rand(count, PLAIN, generator=generator) - 1
        return torch.cat([plain, torch.randn(count, 2 * KNOTS**2, generator=generator)], 1)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image numbers"]
    ) -> Float[Tensor, "image channel height width"]:
        """The images, each changed by its numbers."""
        height, width = images.shape[2:]
        half = drawn.new_tensor(
            [width / 2, height / 2]
        )  # pixels per unit of the grid, which extends from -1 to 1
        grid = F.affine_grid(
            self._lines(drawn[:, :PLAIN], half), list(images.shape), align_corners=False
        )
        knots = drawn[:, PLAIN:].reshape(-1, 2, KNOTS, KNOTS)
        bent = F.interpolate(knots, (height, width), mode="bicubic", align_corners=True).permute(
            0, 2, 3, 1
        )
        grid = grid + self.strength * BEND * bent / half
        return F.grid_sample(images.float(), grid, align_corners=False)

    def _lines(
        self, drawn: Float[Tensor, "image 6"], half: Float[Tensor, "2"]
    ) -> Float[Tensor, "image 2 3"]:
        """The affine map from new to old pixels."""
        angle, tall, wide, slant, down, right = (self.strength * drawn).unbind(1)
        angle, tall, wide, slant = (
            angle * TURN,
            torch.exp(tall * STRETCH),
            torch.exp(wide * STRETCH),
            slant * SLANT,
        )
        column = torch.stack(
            [wide * angle.cos(), wide * (slant - angle.sin()), right * MOVE / half[0]], 1
        )
        row = torch.stack([tall * angle.sin(), tall * angle.cos(), down * MOVE / half[1]], 1)
        return torch.stack([column, row], 1)
