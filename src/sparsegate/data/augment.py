"""Random shifts of image batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Shift:
    """Moves every image by a few pixels in both directions; what leaves the frame is lost, what enters is black.

    Drawing and applying are apart, so that a whole epoch is drawn at once and every process can take its part.
    """

    pixels: int
    """The largest shift, 0 for none."""

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "image 2"]:
        """How far each of `count` images moves down and right."""
        return torch.randint(-self.pixels, self.pixels + 1, (count, 2), generator=generator)

    def apply(
        self, images: UInt8[Tensor, "image channel height width"], offsets: Int64[Tensor, "image 2"]
    ) -> UInt8[Tensor, "image channel height width"]:
        """The images, each moved by its offset."""
        if self.pixels == 0:
            return images
        num_images, _, height, width = images.shape
        padded = F.pad(images, (self.pixels,) * 4)
        first = self.pixels - offsets  # where the frame's corner lies in the padded image
        row = first[:, :1] + torch.arange(height, device=images.device)
        column = first[:, 1:] + torch.arange(width, device=images.device)
        image = torch.arange(num_images, device=images.device)
        moved = padded[image[:, None, None], :, row[:, :, None], column[:, None, :]]
        return moved.permute(0, 3, 1, 2)  # indexing leaves the channels last, which convolutions like best
