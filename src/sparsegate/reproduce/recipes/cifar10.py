"""VGG-16 on CIFAR-10: a dense baseline, and the same made sparse."""

from __future__ import annotations

from sparsegate.methods import Dense, LearnedGates
from sparsegate.penalty import Penalty
from sparsegate.train import Run


def vgg16_dense() -> Run[Dense]:
    """The baseline, from first weights."""
    return _vgg16(Dense(), epochs=120, lr=0.05)


def vgg16() -> Run[LearnedGates]:
    """Every weight gated, from the folder of a dense run: --weights runs/vgg16-cifar-dense-..."""
    # 14 977 728 gates, 351 steps an epoch: the price alone moves a gate by 10 * 8 * 30 * 28 080 / 14 977 728 = 4.5.
    return _vgg16(LearnedGates(penalty=Penalty(count=30.0), gate_lr=8.0), epochs=80, lr=0.02)


def _vgg16(method: Dense | LearnedGates, *, epochs: int, lr: float) -> Run:  # type: ignore[type-arg]
    return Run(
        model="vgg16-cifar",
        data="cifar10",
        method=method,
        epochs=epochs,
        lr=lr,
        weight_decay=5e-4,
        warmup=0.02,
        shift=4,
        flip=True,
        precision="bf16",
    )
