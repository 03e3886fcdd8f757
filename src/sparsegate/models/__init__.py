"""The networks of the paper and its field, by name."""

from __future__ import annotations

from torch import nn

from sparsegate.registry import Registry

from .lenet5 import LeNet5
from .lenet300 import LeNet300

MODELS: Registry[type[nn.Module]] = Registry("model", {"lenet5": LeNet5, "lenet300": LeNet300})
"""Each is built with `num_classes` and says in `image_shape` what it takes."""

__all__ = ["MODELS", "LeNet5", "LeNet300"]
