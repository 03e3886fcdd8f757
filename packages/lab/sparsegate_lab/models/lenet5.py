"""LeNet-5 of the pruning literature: Caffe's 20-50-500-10 network for MNIST."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    """Two 5x5 convolutions, both with pooling, and two fully connected layers.

    # 431 080 = 500 + 25 000 + 400 000 + 5 000 weights + 580 biases
    """

    # Differs from Caffe's LeNet: 1. The convolutions have ReLUs, as is the default of the paper's
    # library. The ReLUs follow the pooling: the result is the same, with a quarter of the work.
    image_shape: ClassVar[tuple[int, int, int]] = (1, 28, 28)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.fc2 = nn.Linear(500, num_classes)

    def forward(self, image: Float[Tensor, "batch 1 28 28"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        hidden = F.relu(F.max_pool2d(self.conv1(image), 2))
        hidden = F.relu(F.max_pool2d(self.conv2(hidden), 2))
        hidden = F.relu(self.fc1(hidden.flatten(1)))
        logits: Tensor = self.fc2(hidden)
        return logits
