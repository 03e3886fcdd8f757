"""Networks of the paper and of the pruning literature, in a registry by name."""

from __future__ import annotations

from torch import nn

from sparsegate_runtime.files import Shapes
from sparsegate_runtime.registry import Registry

from .alexnet import AlexNet
from .alexnet_torchvision import AlexNetTorchvision
from .architectures import match, register
from .lenet5 import LeNet5
from .lenet5_lasagne import LeNet5Lasagne
from .lenet300 import LeNet300
from .own import build_model, model_class
from .resnet20 import ResNet20
from .small_cnn import SmallCNN
from .vgg16 import VGG16, VGG16Small
from .weights import load_weights_

MODELS: Registry[type[nn.Module]] = Registry(
    "model",
    {
        "lenet5": LeNet5,
        "lenet5-lasagne": LeNet5Lasagne,
        "lenet300": LeNet300,
        "alexnet": AlexNet,
        "alexnet-torchvision": AlexNetTorchvision,
        "vgg16": VGG16,
        "vgg16-cifar": VGG16Small,
        "resnet20": ResNet20,
        "small-cnn": SmallCNN,
    },
)
"""Every model takes `num_classes` and has its input's shape as `image_shape`."""

register(MODELS)


def find_model(name: str) -> type[nn.Module]:
    """Returns the class of a registered model, or the one that `module:Class` names.

    >>> find_model("lenet5").image_shape
    (1, 28, 28)
    """
    return model_class(MODELS, name)


def make_model(name: str, *, num_classes: int) -> nn.Module:
    """Returns a new model, registered or named by `module:Class`."""
    return build_model(MODELS, name, num_classes)


def matching_model(shapes: Shapes) -> tuple[str, int] | None:
    """Returns the name and the number of classes of the registered model with these tensors."""
    return match(MODELS, shapes)


__all__ = [
    "MODELS",
    "VGG16",
    "AlexNet",
    "AlexNetTorchvision",
    "LeNet5",
    "LeNet5Lasagne",
    "LeNet300",
    "ResNet20",
    "SmallCNN",
    "VGG16Small",
    "find_model",
    "load_weights_",
    "make_model",
    "matching_model",
]
