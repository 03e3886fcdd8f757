"""CONTRACT Augment: random changes of training images.

Numbers are drawn for a whole epoch and applied to each batch on its device.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Tensor
from torch.nn import functional as F

from .crop import resized

GREY = (0.299, 0.587, 0.114)  # perceived brightness of red, green and blue
MIDDLE = 128  # of the levels from 0 to 255


class Augment(abc.ABC):
    """Changes images at random.

    A whole epoch is drawn at once, on the CPU, whatever the device and the number of processes;
    every process applies its part.
    """

    @abc.abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Num[Tensor, "image numbers"]:
        """A few random numbers for each of `count` images."""

    @abc.abstractmethod
    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image numbers"]
    ) -> Num[Tensor, "image channel rows columns"]:
        """The images, each changed by its numbers; levels stay between 0 and 255."""


@dataclass(frozen=True)
class Shift(Augment):
    """Moves every image by a few pixels in both directions; new pixels are black."""

    pixels: int
    """The largest shift, 0 for none."""

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "image 2"]:
        """How far each of `count` images moves down and right."""
        return torch.randint(-self.pixels, self.pixels + 1, (count, 2), generator=generator)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image 2"]
    ) -> Num[Tensor, "image channel height width"]:
        """The images, each moved by its offset."""
        if self.pixels == 0:
            return images
        num_images, _, height, width = images.shape
        padded = F.pad(images, (self.pixels,) * 4)
        first = self.pixels - drawn  # where the frame's corner lies in the padded image
        row = first[:, :1] + torch.arange(height, device=images.device)
        column = first[:, 1:] + torch.arange(width, device=images.device)
        image = torch.arange(num_images, device=images.device)
        moved = padded[image[:, None, None], :, row[:, :, None], column[:, None, :]]
        return moved.permute(0, 3, 1, 2)  # channels last, which is fastest for convolutions


@dataclass(frozen=True)
class Flip(Augment):
    """Mirrors images left to right, with probability one half."""

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "image 1"]:
        """One for each image to mirror, zero for the others."""
        return torch.randint(0, 2, (count, 1), generator=generator)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image 1"]
    ) -> Num[Tensor, "image channel height width"]:
        """The images, those with a one mirrored."""
        return torch.where(drawn[:, :, None, None] == 1, images.flip(3), images)


@dataclass(frozen=True)
class RandomCrop(Augment):
    """Crops a part of random area and shape from every image, and resizes it."""

    # Differs from torchvision's RandomResizedCrop: 1. a part larger than the image ends at its
    # border and is not drawn again. 2. parts may begin and end between pixels. 3. the image is the
    # cached square.

    size: tuple[int, int]
    """Height and width of the result."""

    smallest: float = 0.08
    """The smallest area, as a fraction of the image."""

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "image 4"]:
        """Area, shape and position of each part, as numbers in [0, 1)."""
        return torch.rand(count, 4, generator=generator)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image 4"]
    ) -> Float[Tensor, "image channel rows columns"]:
        """The parts, at one size."""
        return resized(images, self.boxes(images.shape[2], images.shape[3], drawn), self.size)

    def boxes(
        self, height: int, width: int, drawn: Num[Tensor, "image 4"]
    ) -> Float[Tensor, "image 4"]:
        """Top, left, height and width of each part."""
        area = self.smallest + (1 - self.smallest) * drawn[:, 0]
        wider = torch.exp(
            (2 * drawn[:, 1] - 1) * math.log(4 / 3)
        )  # width over height, from 3/4 to 4/3
        down = height * (area / wider).sqrt().clamp(max=1)
        right = width * (area * wider).sqrt().clamp(max=1)
        return torch.stack(
            [(height - down) * drawn[:, 2], (width - right) * drawn[:, 3], down, right], dim=1
        )


@dataclass(frozen=True)
class Jitter(Augment):
    """Changes brightness, contrast and color of every image."""

    # Differs from torchvision's ColorJitter: 1. always in this order. 2. no hue. 3. levels are
    # clamped at the end only.

    strength: float
    """Factors are drawn from 1 - strength to 1 + strength."""

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "image 3"]:
        """A factor for each."""
        return 1 + self.strength * (2 * torch.rand(count, 3, generator=generator) - 1)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image 3"]
    ) -> Float[Tensor, "image channel height width"]:
        """The images with other brightness, contrast and color."""
        brightness, contrast, colour = drawn[:, :, None, None, None].unbind(1)
        images, light = images.float(), brightness * contrast
        grey = _grey(images)
        middle = brightness * grey.mean((1, 2, 3), keepdim=True)
        # All three changes are linear, so they are one: contrast applies around the mean gray, and
        # color mixes the result with its gray. The cost is passes over memory.
        rest = torch.addcmul((1 - contrast) * middle, light * (1 - colour), grey)
        return torch.addcmul(rest, light * colour, images).clamp_(0, 255)


@dataclass(frozen=True)
class Erase(Augment):
    """Covers a random square of every image with gray (cutout, DeVries and Taylor, 2017)."""

    pixels: int
    """Side of the square, which may extend over the border."""

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "image 2"]:
        """The centre of each square, as fractions of height and width."""
        return torch.rand(count, 2, generator=generator)

    def apply(
        self, images: Num[Tensor, "image channel height width"], drawn: Num[Tensor, "image 2"]
    ) -> Num[Tensor, "image channel height width"]:
        """The images, each with its square."""
        rows, columns = (
            self._covered(part, size)
            for part, size in zip(drawn.unbind(1), images.shape[2:], strict=True)
        )
        return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], MIDDLE)

    def _covered(self, middle: Float[Tensor, " image"], size: int) -> Bool[Tensor, "image size"]:
        """Which rows, or columns, the square covers."""
        first = (middle * size).long() - self.pixels // 2
        index = torch.arange(size, device=middle.device)
        return (index >= first[:, None]) & (index < first[:, None] + self.pixels)


def _grey(
    images: Float[Tensor, "image channel height width"],
) -> Float[Tensor, "image 1 height width"]:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True)
    red, green, blue = (images[:, index : index + 1] for index in range(len(GREY)))
    return (GREY[0] * red).add_(green, alpha=GREY[1]).add_(blue, alpha=GREY[2])
