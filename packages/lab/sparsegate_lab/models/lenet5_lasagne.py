"""LeNet-5 with the biases and the rectifier of Lasagne, the paper's library."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .lenet5 import LeNet5


class LeNet5Lasagne(LeNet5):
    """The layers of `LeNet5`, with other initial biases and another gradient at zero.

    A layer whose gates are all closed gives its biases and nothing else. Here these begin at zero, and there the
    rectifier passes half of the gradient, so the gates can open; in `LeNet5` the units with negative biases are dead.
    """

    # Differs from Lasagne: the initial weights are torch's.

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(num_classes)
        for name, first in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(first)

    def forward(self, image: Float[Tensor, "batch 1 28 28"]) -> Float[Tensor, "batch classes"]:
        """The logits of a batch of images."""
        # The values are equal; what runs or exports a finished network knows the ordinary rectifier.
        rectify = half_rectifier if self.training else F.relu
        hidden = rectify(F.max_pool2d(self.conv1(image), 2))
        hidden = rectify(F.max_pool2d(self.conv2(hidden), 2))
        hidden = rectify(self.fc1(hidden.flatten(1)))
        logits: Tensor = self.fc2(hidden)
        return logits


def half_rectifier(x: Tensor) -> Tensor:
    """The rectifier as Theano writes it, whose gradient at zero is one half.

    >>> import torch
    >>> x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> torch.autograd.grad(half_rectifier(x).sum(), x)[0].tolist()
    [0.0, 0.5, 1.0]
    """
    return 0.5 * (x + x.abs())
