"""A small convolutional network with batch normalization, for images of 28 by 28 pixels."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class SmallCNN(nn.Module):
    """Two 3x3 convolutions, both with batch normalization and pooling, and two connected layers.

    # 105 744 weights = 144 + 4 608 + 100 352 + 640
    """

    image_shape: ClassVar[tuple[int, int, int]] = (1, 28, 28)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * 7 * 7, 64)
        self.fc2 = nn.Linear(64, num_classes)

    def forward(self, image: Float[Tensor, "batch 1 28 28"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        hidden = F.max_pool2d(F.relu(self.norm1(self.conv1(image))), 2)
        hidden = F.max_pool2d(F.relu(self.norm2(self.conv2(hidden))), 2)
        hidden = F.relu(self.fc1(hidden.flatten(1)))
        logits: Tensor = self.fc2(hidden)
        return logits
