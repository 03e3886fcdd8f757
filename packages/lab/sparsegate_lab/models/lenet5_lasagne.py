"""LeNet-5 with the initial biases and the ReLU of Lasagne, the paper's library."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .lenet5 import LeNet5


class LeNet5Lasagne(LeNet5):
    """`LeNet5` with zero initial biases and a ReLU whose gradient at zero is one half.

    If all gates of a layer are closed, its outputs are its biases. Here they start at zero, where
    the ReLU passes half of the gradient, so the gates can open. In `LeNet5`, units with negative
    biases are dead.
    """

    # Differs from Lasagne: the initial weights are torch's.

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(num_classes)
        for name, first in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(first)

    def forward(self, image: Float[Tensor, "batch 1 28 28"]) -> Float[Tensor, "batch classes"]:
        """Returns the logits of a batch of images."""
        # Both give the same values. Runtimes and exporters support only the ordinary ReLU.
        rectify = half_rectifier if self.training else F.relu
        hidden = rectify(F.max_pool2d(self.conv1(image), 2))
        hidden = rectify(F.max_pool2d(self.conv2(hidden), 2))
        hidden = rectify(self.fc1(hidden.flatten(1)))
        logits: Tensor = self.fc2(hidden)
        return logits


def half_rectifier(x: Tensor) -> Tensor:
    """Computes ReLU as Theano does, with a gradient of one half at zero.

    >>> import torch
    >>> x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> torch.autograd.grad(half_rectifier(x).sum(), x)[0].tolist()
    [0.0, 0.5, 1.0]
    """
    return 0.5 * (x + x.abs())
