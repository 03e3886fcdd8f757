"""AlexNet as in Caffe, with two groups in the second, fourth and fifth convolutions."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class AlexNet(nn.Module):
    """Five convolutions and three fully connected layers, with Caffe's names.

    # 2 332 704 = 34 848 + 307 200 + 884 736 + 663 552 + 442 368 weights in convolutions
    # 60 965 224 = 2 332 704 + 37 748 736 + 16 777 216 + 4 096 000 weights + 10 568 biases,
    #              for 1000 classes
    """

    # Differs from Caffe's AlexNet: 1. The initial weights are torch's, not Gaussian. 2. Images are
    # normalized RGB. Caffe's weights expect BGR bytes; permute and scale conv1 to use them.
    image_shape: ClassVar[tuple[int, int, int]] = (3, 227, 227)

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, 11, stride=4)
        self.conv2 = nn.Conv2d(96, 256, 5, padding=2, groups=2)
        self.conv3 = nn.Conv2d(256, 384, 3, padding=1)
        self.conv4 = nn.Conv2d(384, 384, 3, padding=1, groups=2)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1, groups=2)
        # As in Caffe, alpha is divided by the size, 5.
        self.norm = nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)
        self.dropout = nn.Dropout(0.5)
        self.fc6 = nn.Linear(256 * 6 * 6, 4096)
        self.fc7 = nn.Linear(4096, 4096)
        self.fc8 = nn.Linear(4096, num_classes)

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Returns logits for images of 227x227 or 224x224, which are equal after one pooling."""
        hidden = _pooled(self.norm(F.relu(self.conv1(image))))
        hidden = _pooled(self.norm(F.relu(self.conv2(hidden))))
        hidden = F.relu(self.conv4(F.relu(self.conv3(hidden))))
        hidden = _pooled(F.relu(self.conv5(hidden))).flatten(1)
        hidden = self.dropout(F.relu(self.fc6(hidden)))
        hidden = self.dropout(F.relu(self.fc7(hidden)))
        logits: Tensor = self.fc8(hidden)
        return logits


def _pooled(image: Tensor) -> Tensor:
    return F.max_pool2d(image, 3, stride=2, ceil_mode=True)  # Caffe rounds up
