"""Crops and resizes images, as two matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor, arange

from sparsegate.export import Normalise

IMAGENET = Normalise((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""What torchvision's weights for ImageNet expect; 123.675 = 255 * 0.485."""


@dataclass(frozen=True)
class Fit:
    """Crops images to the centre at a network's input size, and normalizes them."""

    size: tuple[int, int]
    """Height and width of the network's input."""
    normalise: Normalise

    def __call__(
        self, images: Num[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel rows columns"]:
        """The network's input."""
        return self.normalise(centred(images, self.size))


def resized(
    images: Num[Tensor, "image channel height width"],
    boxes: Float[Tensor, "image 4"],
    size: tuple[int, int],
) -> Float[Tensor, "image channel rows columns"]:
    """One box of each image (top, left, height, width in pixels), resized.

    Interpolates linearly, and averages where the box shrinks.
    """
    rows = _matrix(boxes[:, 0], boxes[:, 2], size[0], images.shape[2])
    columns = _matrix(boxes[:, 1], boxes[:, 3], size[1], images.shape[3])
    # The channels of an image share its matrices: the first product takes them as more rows.
    across = images.float().flatten(1, 2) @ columns.transpose(1, 2)
    return rows[:, None] @ across.reshape(*images.shape[:3], size[1])


def centred(
    images: Num[Tensor, "image channel height width"], size: tuple[int, int]
) -> Num[Tensor, "image channel rows columns"]:
    """The centre of each image at a size; images that are smaller are enlarged first."""
    height, width = images.shape[2:]
    if height < size[0] or width < size[1]:
        larger = max(size[0] / height, size[1] / width)
        part = (size[0] / larger, size[1] / larger)
        box = images.new_tensor(
            [(height - part[0]) / 2, (width - part[1]) / 2, *part], dtype=torch.float32
        )
        return resized(images, box.expand(len(images), 4), size)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return images[:, :, top : top + size[0], left : left + size[1]]


def _matrix(
    begin: Float[Tensor, " image"], length: Float[Tensor, " image"], count: int, pixels: int
) -> Float[Tensor, "image count pixels"]:
    """The weight of each pixel of a line in each of `count` new pixels."""
    step = length / count
    middle = begin[:, None] + (arange(count, device=begin.device) + 0.5) * step[:, None] - 0.5
    away = (arange(pixels, device=begin.device) - middle[:, :, None]).abs()
    share = (1 - away / step.clamp(min=1)[:, None, None]).clamp(min=0)
    return share / share.sum(2, keepdim=True)  # at the border, fewer pixels contribute
