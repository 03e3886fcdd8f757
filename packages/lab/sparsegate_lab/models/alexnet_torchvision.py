"""AlexNet as in torchvision, with fewer filters than Caffe's and without normalization."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn


class AlexNetTorchvision(nn.Module):
    """Five convolutions and three fully connected layers; torchvision's weights load by name.

    # 2 468 544 = 23 232 + 307 200 + 663 552 + 884 736 + 589 824 weights in convolutions
    # 61 100 840 = 2 468 544 + 37 748 736 + 16 777 216 + 4 096 000 weights + 10 344 biases,
    #              for 1000 classes
    """

    image_shape: ClassVar[tuple[int, int, int]] = (3, 224, 224)

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, num_classes),
        )

    def forward(self, image: Float[Tensor, "batch 3 224 224"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        logits: Tensor = self.classifier(self.features(image).flatten(1))
        return logits
