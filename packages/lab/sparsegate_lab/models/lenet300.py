"""LeNet-300-100, the fully connected network of the pruning literature."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class LeNet300(nn.Module):
    """Three fully connected layers.

    # 266 610 = 235 200 + 30 000 + 1 000 weights + 410 biases
    """

    image_shape: ClassVar[tuple[int, int, int]] = (1, 28, 28)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, 300)
        self.fc2 = nn.Linear(300, 100)
        self.fc3 = nn.Linear(100, num_classes)

    def forward(self, image: Float[Tensor, "batch 1 28 28"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        hidden = F.relu(self.fc1(image.flatten(1)))
        logits: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return logits
