"""What networks trained on photographs expect of an image: its middle, normalised."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Num
from torch import Tensor

from sparsegate.export import Normalise

from .crop import centred

IMAGENET = Normalise((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""What weights that torchvision trained on ImageNet expect; 123.675 = 255 * 0.485."""


@dataclass(frozen=True)
class Fit:
    """The middle of each image at a network's size, normalised; images that have this size only are normalised."""

    size: tuple[int, int]
    """Height and width that the network takes."""
    normalise: Normalise

    def __call__(
        self, images: Num[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel rows columns"]:
        """What the network takes."""
        return self.normalise(centred(images, self.size))
