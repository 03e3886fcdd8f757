"""VGG-16 on CIFAR-10: a dense baseline and sparse networks."""

from __future__ import annotations

import dataclasses
from typing import Any

from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run, Teacher

TRAVEL = 2.0  # some thousand steps
SMOOTH = 0.1  # the dense network could learn all training images by heart
TAUGHT = Teacher(
    temperature=2.0, share=0.9
)  # by the dense network: --distil.teacher names its folder
# With 15,000 weights the network cannot learn its training images by heart, and dropout takes half
# of the few connections that its last layer has. In looks of 40 epochs: a travel of 0.3 gave 86.1 %
# on the validation split, 0.05 gave 85.7, and a share of 0.9 85.8. Weights are few early, so that
# those that are left train for long. A weight decay of 5e-4, which the dense network has, cost a
# point of accuracy.
FEW: dict[str, Any] = {"travel": 0.3, "fade": True, "phases": (0.03, 0.45, 0.55)}


def vgg16_dense() -> Run[Dense]:
    """VGG-16 on CIFAR-10, dense, from random weights."""
    return _vgg16(Dense(), epochs=120, lr=0.1, erase=8, label_smoothing=SMOOTH, compile=False)


def vgg16_25x() -> Run[LearnedGates]:
    """VGG-16 on CIFAR-10 at 96 % sparsity, from a dense run: --weights runs/vgg16-cifar-..."""
    return _vgg16(_at(25), epochs=120, lr=0.05, erase=8, distil=TAUGHT)


def vgg16_100x() -> Run[LearnedGates]:
    """VGG-16 on CIFAR-10 at 99 % sparsity, from a dense run: --weights runs/vgg16-cifar-..."""
    return _vgg16(_at(100), epochs=120, lr=0.05, erase=8, distil=TAUGHT)


def vgg16_1000x() -> Run[LearnedGates]:
    """VGG-16 on CIFAR-10 at 99.9 % sparsity, from a dense run: --weights runs/vgg16-cifar-..."""
    taught = dataclasses.replace(TAUGHT, share=0.5)
    return _vgg16(_at(1000, **FEW), epochs=200, lr=0.1, weight_decay=2e-5, distil=taught)


def _at(
    rate: int,
    *,
    travel: float = TRAVEL,
    fade: bool = False,
    phases: tuple[float, float, float] = (0.05, 0.5, 0.65),
) -> LearnedGates:
    """Returns a run with a given rate; the phases say when weights leave, are few, and freeze."""
    begin, reach, freeze = phases
    target = Target(
        keep=1 / rate, travel=travel, evenly=0.5, begin=begin, reach=reach, freeze=freeze
    )
    return LearnedGates(target=target, graded=True, fade=fade)


def _vgg16(method: Dense | LearnedGates, *, epochs: int, lr: float, **others: Any) -> Run[Any]:
    settings = {
        "model": "vgg16-cifar",
        "data": "cifar10",
        "batch_size": 256,
        "weight_decay": 5e-4,
        "warmup": 0.1,
        "shift": 4,
        "flip": True,
        "precision": "bf16",
        "compile": True,
    }
    return Run(method=method, epochs=epochs, lr=lr, **{**settings, **others})
