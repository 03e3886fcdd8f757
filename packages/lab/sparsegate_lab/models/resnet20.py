"""ResNet-20 for CIFAR: He, Zhang, Ren and Sun, Deep Residual Learning, 2015, section 4.2."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .initial_weights import begin_

WIDTHS = (16, 32, 64)
BLOCKS = 3  # of two convolutions, for every width: 1 + 3 * 3 * 2 + 1 = 20 layers


class ResNet20(nn.Module):
    """Nineteen convolutions with BatchNorm, and one fully connected layer.

    Skip connections have no weights.

    # 269 722 = 432 + 13 824 + 50 688 + 202 752 weights in convolutions
    #           + 640 + 10 in the head + 1 376 of BatchNorm
    """

    image_shape: ClassVar[tuple[int, int, int]] = (3, 32, 32)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTHS[0])
        entering = (WIDTHS[0], *(width for width in WIDTHS for _ in range(BLOCKS)))
        leaving = entering[1:]
        self.blocks = nn.Sequential(*map(ResidualBlock, entering, leaving))
        self.head = nn.Linear(WIDTHS[-1], num_classes)
        begin_(self)

    def forward(self, image: Float[Tensor, "batch 3 32 32"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        hidden = self.blocks(F.relu(self.norm(self.conv(image))))
        logits: Tensor = self.head(F.adaptive_avg_pool2d(hidden, 1).flatten(1))
        return logits


class ResidualBlock(nn.Module):
    """Two convolutions with a skip connection.

    If the block widens, the skip connection halves the planes and adds channels of zeros.
    """

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.stride, self.wider = (1, 0) if entering == leaving else (2, leaving - entering)
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride=self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(leaving)

    def forward(
        self, image: Float[Tensor, "batch entering height width"]
    ) -> Float[Tensor, "batch leaving rows columns"]:
        """Returns the output of the block."""
        hidden = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(image)))))
        skipped = image[:, :, :: self.stride, :: self.stride]
        around = self.wider // 2  # half of the new channels come first, the other half last
        return F.relu(hidden + F.pad(skipped, (0, 0, 0, 0, around, around)))
