"""Images as another hand might have drawn them."""

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
)  # at most, of strength one; the last in pixels
BEND = 0.4  # pixels, standard deviation at the knots
KNOTS = 7  # in height and in width, where the bending is drawn; it is smooth in between
PLAIN = 6  # numbers for all but the bending


@dataclass(frozen=True)
class Vary(Augment):
    """Turns, stretches, slants, moves and bends every image a little; what enters is black."""

    strength: float = 1.0
    """At one: 5 degrees, 5 % of height and of width, 6 % of the height aside, half a pixel; bent by 0.4 pixels."""

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "image numbers"]:
        """Angle, height, width, slant, ways down and right, in [-1, 1); then how each knot moves, in deviations."""
        plain = 2 * torch.rand(count, PLAIN, generator=generator) - 1
        return torch.cat([plain, torch.randn(count, 2 * KNOTS**2, generator=generator)], 1)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image numbers"]
    ) -> Float[Tensor, "image channel height width"]:
        """The images, each changed by its numbers."""
        height, width = images.shape[2:]
        half = drawn.new_tensor(
            [width / 2, height / 2]
        )  # pixels to a unit of the grid, which goes from -1 to 1
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
        """Where pixels come from: column and row, as lines over the new column and row."""
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
