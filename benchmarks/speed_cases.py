"""The networks and layers whose speed is measured, at the paper's sparsities, with what is wanted of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate_lab.models import MODELS, LeNet5

OURS, EAGER, DEEPSPARSE, WIRED = "ours", "torch eager", "deepsparse", "hard-wired"
ENGINES = (EAGER, "torch.compile", "onnxruntime", "openvino", DEEPSPARSE)
RESULTS = Path(__file__).parent.parent / "results"
BATCHES = (1, 16, 64, 256)
Wanted = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """A network with zeros, the batches and threads it is timed with, and the least speed-ups that are wanted."""

    name: str
    shape: tuple[int, ...]
    build: Callable[[], nn.Module]
    batches: tuple[int, ...] = BATCHES
    threads: int = 1
    whole: bool = False
    """A large network, whose kernels are chosen at the first two batches.

    The nearest serve the others.
    """
    engines: tuple[str, ...] = ENGINES
    """Beside which ours is timed, where they are installed."""
    hard_wired: bool = False
    """Small enough to be compiled with its weights in the code."""
    wanted: Mapping[tuple[str, str], Wanted] = field(default_factory=dict)
    """Who, against whom: the least ratio at every batch."""


def prune_(weight: Tensor, kept: int) -> None:
    """Random weights, exactly so many of them not zero, scaled so that signals keep their size."""
    fan_in = weight[0].numel()
    scale = (2 / max(1, fan_in * kept / weight.numel())) ** 0.5
    chosen = np.random.default_rng(0).choice(weight.numel(), kept, replace=False, shuffle=False)
    with torch.no_grad():
        weight.zero_().view(-1)[torch.from_numpy(chosen)] = scale * torch.randn(kept)


def pruned(build: Callable[[], nn.Module], sparsities: tuple[float, ...]) -> nn.Module:
    """A model whose layers, in order, have these fractions of zeros."""
    torch.manual_seed(0)
    with torch.device("meta"):  # no time is spent on first values
        model = build()
    model = model.to_empty(device="cpu")
    layers = [each for each in model.modules() if isinstance(each, nn.Linear | nn.Conv2d)]
    for layer, sparsity in zip(layers, sparsities, strict=True):
        prune_(layer.weight, round((1 - sparsity) * layer.weight.numel()))
        if layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.01)
    for norm in (each for each in model.modules() if isinstance(each, nn.BatchNorm2d)):
        norm.reset_parameters()
    return model.eval()


def lenet5(kept: Mapping[str, int]) -> nn.Module:
    """LeNet-5 with so many weights in every layer."""
    totals = {"conv1": 500, "conv2": 25_000, "fc1": 400_000, "fc2": 5_000}
    return pruned(LeNet5, tuple(1 - kept[name] / total for name, total in totals.items()))


def recorded() -> dict[str, int]:
    """The weights that the layers of our smallest LeNet-5 keep (1,470 for the first seed), from its record."""
    record = json.loads((RESULTS / "lenet5-method1.json").read_text())["records"][0]
    return {layer["name"].removesuffix(".weight"): layer["kept"] for layer in record["layers"]}


def alexnet() -> nn.Module:
    """AlexNet with torchvision's shapes."""
    return nn.Sequential(
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
        nn.Flatten(),
        nn.Linear(9216, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    )


def vgg16() -> nn.Module:
    """VGG-16 (configuration D)."""
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    linear = [
        nn.Linear(25088, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    ]
    return nn.Sequential(*layers, nn.Flatten(), *linear)


def linear(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs))


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(512, 512, 3, padding=1))


# The paper's tables of AlexNet and VGG-16: convolutions whole but for conv5_2 and conv5_3
ALEXNET_FC, VGG_FC = (0.965, 0.94, 0.70), (0.999, 0.9901, 0.897)
ALEXNET = (*(0.0,) * 5, *ALEXNET_FC)
VGG = (*(0.0,) * 11, 0.882, 0.882, *VGG_FC)
# Convolutions as Han et al. 2015 prune them, no less than 65 % but for the first; linear layers as
# above
ALEXNET_ALL = (0.16, 0.65, 0.65, 0.65, 0.65, *ALEXNET_FC)
VGG_ALL = (0.42, 0.78, 0.66, 0.65, 0.65, 0.76, 0.65, 0.68, 0.73, 0.66, 0.65, 0.882, 0.882, *VGG_FC)

PAPER = {"conv1": 44, "conv2": 1780, "fc1": 15_400, "fc2": 660}
LEVEL: Wanted = (1.0, 1.0, 1.0, 1.0)
LARGE = 64  # places across: networks for such images run on two threads


def _linear(name: str, inputs: int, outputs: int, sparsity: float, eager: Wanted = ()) -> Case:
    wanted = {(OURS, DEEPSPARSE): LEVEL} | ({(OURS, EAGER): eager} if eager else {})
    build = partial(pruned, partial(linear, inputs, outputs), (sparsity,))
    return Case(f"{name}, {100 * sparsity:g} %", (inputs,), build, wanted=wanted)


def _whole(name: str, build: Callable[[], nn.Module], sparsities: tuple[float, ...]) -> Case:
    return Case(
        name,
        (3, 224, 224),
        partial(pruned, build, sparsities),
        (1, 16, 64),
        threads=2,
        whole=True,
        engines=(EAGER, DEEPSPARSE),
        wanted={(OURS, DEEPSPARSE): LEVEL[:3]},
    )


def _registered(title: str, name: str, sparsity: float, **settings: Any) -> Case:
    """A network of the registry, with the same fraction of zeros in every layer."""
    model = MODELS[name]
    with torch.device("meta"):
        num_layers = sum(isinstance(each, nn.Linear | nn.Conv2d) for each in model().modules())
    shape: tuple[int, ...] = model.image_shape  # type: ignore[attr-defined]
    return Case(title, shape, partial(pruned, model, (sparsity,) * num_layers), **settings)


def _with_norms(title: str, name: str, sparsity: float) -> Case:
    """A network with BatchNorm, perhaps with skip connections, beside all engines."""
    return _registered(
        title, name, sparsity, wanted={(OURS, EAGER): LEVEL, (OURS, DEEPSPARSE): LEVEL}
    )


def _never_slower(name: str, sparsity: float) -> Case:
    """A network with many zeros or few: dense stays where sparse does not win."""
    large = MODELS[name].image_shape[-1] > LARGE  # type: ignore[attr-defined]
    settings = {"threads": 2 if large else 1, "whole": large, "engines": (EAGER,)}
    title = f"never slower: {name}, {100 * sparsity:g} %"
    return _registered(title, name, sparsity, wanted={(OURS, EAGER): (0.97,) * 4}, **settings)


CASES = (
    Case(
        "LeNet-5, paper's sparsity",
        (1, 28, 28),
        partial(lenet5, PAPER),
        wanted={(OURS, EAGER): (20, 20, 25, 20), (OURS, DEEPSPARSE): (2, 3, 2.5, 2.5)},
    ),
    Case(
        "LeNet-5, 300x",
        (1, 28, 28),
        lambda: lenet5(recorded()),
        hard_wired=True,
        wanted={(WIRED, EAGER): (60, 40, 40, 40), (OURS, DEEPSPARSE): LEVEL},
    ),
    _linear("AlexNet fc6", 9216, 4096, 0.965, (20, 14, 11, 7)),
    _linear("AlexNet fc7", 4096, 4096, 0.94),
    _linear("AlexNet fc8", 4096, 1000, 0.70),
    _linear("VGG-16 fc6", 25088, 4096, 0.999, (400, 150, 80, 60)),
    _linear("VGG-16 fc7", 4096, 4096, 0.9901),
    _linear("VGG-16 fc8", 4096, 1000, 0.897),
    Case(
        "VGG-16 conv5_2, 88.2 %",
        (512, 14, 14),
        partial(pruned, conv, (0.882,)),
        (1, 16, 64),
        wanted={(OURS, EAGER): (1, 1, 1), (OURS, DEEPSPARSE): (1, 1, 1)},
    ),
    _with_norms("VGG-16 for CIFAR, 99 %", "vgg16-cifar", 0.99),
    _with_norms("ResNet-20, 90 %", "resnet20", 0.90),
    *(_never_slower(name, sparsity) for name in MODELS for sparsity in (0.0, 0.5, 0.9, 0.99)),
    _whole("AlexNet, paper's sparsity", alexnet, ALEXNET),
    _whole("AlexNet, convolutions too", alexnet, ALEXNET_ALL),
    _whole("VGG-16, paper's sparsity", vgg16, VGG),
    _whole("VGG-16, convolutions too", vgg16, VGG_ALL),
)
