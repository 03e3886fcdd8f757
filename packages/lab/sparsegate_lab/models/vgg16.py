"""VGG-16: torchvision's network for large images, and one with BatchNorm for small images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from .initial_weights import begin_

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Filters of the convolutions; every stage ends with pooling."""


class VGG16(nn.Module):
    """Thirteen convolutions and three fully connected layers; torchvision's weights load by name.

    # 138 357 544 = 14 710 464 weights in convolutions
    #               + 102 760 448 + 16 777 216 + 4 096 000 in fully connected layers
    #               + 4 224 + 9 192 biases, for 1000 classes
    """

    image_shape: ClassVar[tuple[int, int, int]] = (3, 224, 224)

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(*_convolutions(norm=False))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(4096, num_classes),
        )
        begin_(self)

    def forward(self, image: Float[Tensor, "batch 3 224 224"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        logits: Tensor = self.classifier(self.features(image).flatten(1))
        return logits


class VGG16Small(nn.Module):
    """Thirteen convolutions with BatchNorm and one hidden layer of 512, for images of 32x32.

    # 14 986 698 = 14 710 464 weights in convolutions + 262 144 + 5 120 in fully connected layers
    #              + 8 448 of BatchNorm + 522 biases, for 10 classes
    """

    image_shape: ClassVar[tuple[int, int, int]] = (3, 32, 32)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(*_convolutions(norm=True))
        self.classifier = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, num_classes)
        )
        begin_(self)

    def forward(self, image: Float[Tensor, "batch 3 32 32"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        logits: Tensor = self.classifier(self.features(image).flatten(1))
        return logits


def _convolutions(*, norm: bool) -> Iterator[nn.Module]:
    entering = 3
    for stage in STAGES:
        for filters in stage:
            yield nn.Conv2d(entering, filters, 3, padding=1, bias=not norm)
            yield from (nn.BatchNorm2d(filters),) if norm else ()
            yield nn.ReLU()
            entering = filters
        yield nn.MaxPool2d(2, 2)
