"""AlexNet and VGG-16 fine-tuned from pretrained weights, on ImageNet and on Imagenette."""

from __future__ import annotations

from typing import Any

from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run, Stop, Teacher

# The paper: gates of fully connected layers start 95 % closed, at 0.49, those of convolutions open,
# of VGG-16's last two convolutions 88 % closed; 30 000 steps for AlexNet and 40 000 for VGG-16;
# training ends on compression and validation accuracy together. Of 1.28 million training images
# 1.23 million are left: 4 808 steps of 256 an epoch.
# Differs from the paper: 1. convolutions that it keeps whole have no gates. All gates share one
# learning rate, and what suits fully connected layers is a hundred times too much for the gates of
# a first convolution, whose gradients are so much larger. 2. it names no prices, learning rates or
# sizes of batches. Ours follow from how far a gate goes by price alone, 10 * gate_lr * count *
# steps / gates, which is 4 at the full price, and from a price that is about as large as the
# gradients of fc6's gates. Nobody has tried them on ImageNet, because we have none.
COUNT = 50.0
CLOSED = 0.05  # what is left open of fully connected layers
# Imagenette: 66 steps an epoch, 133 for VGG-16, in which gates learn little: with a travel of 0.5
# AlexNet lost five points of accuracy while 38 of its 57 million gates were still open, because the
# most important weights have by far the largest push. The order in which gates close is nearly that
# of their start. Neither network has normalization: a few long steps while most weights leave end
# it for good, hence a CLIP.
PHASES: dict[str, Any] = {
    "begin": 0.05,
    "reach": 0.45,
    "freeze": 0.55,
    "travel": 0.005,
    "evenly": 0.75,
}
CLIP = 1.0
VGG16_LATE = (("features.26.*", 0.12), ("features.28.*", 0.12))  # conv5_2, conv5_3
ALEXNET_GATES = 9216 * 4096 + 4096 * 4096  # and 4096 for every class
ALEXNET_CONNECTED = (
    int(57_035_456 / 10.3) - 2_468_544
)  # all weights with ten classes, less those of convolutions
VGG16_GATES = 2 * 512 * 512 * 9 + 25088 * 4096 + 4096 * 4096  # and 4096 for every class


def alexnet_imagenet() -> Run[LearnedGates]:
    """The paper's AlexNet: 10.3x at 56.96 %, from 57.2 %. Needs --weights."""
    gated = _gated(("fc*",), ALEXNET_GATES + 4096 * 1000, steps=30_000)
    return _fine_tuned("alexnet", gated, epochs=7, stop=Stop(rate=10.3, drop=0.25))


def vgg16_imagenet() -> Run[LearnedGates]:
    """The paper's VGG-16: 14x at 69.04 %, from 68.97 %. Needs --weights."""
    gated = _gated(("classifier.*",), VGG16_GATES + 4096 * 1000, steps=40_000, late=VGG16_LATE)
    return _fine_tuned("vgg16", gated, epochs=9, stop=Stop(rate=14.0))


def alexnet_imagenette_dense() -> Run[Dense]:
    """AlexNet on ten classes, dense, from pretrained convolutions: --weights, --new-head."""
    return _alexnet(Dense(), epochs=25, lr=0.006)


def alexnet_imagenette() -> Run[LearnedGates]:
    """The paper's AlexNet on ten classes, 10.3x: fully connected layers gated, most closed."""
    target = Target(weights=ALEXNET_CONNECTED, **PHASES)
    method = LearnedGates(target=target, keep=CLOSED, only=("classifier.*",), fade=True)
    return _alexnet(method, epochs=50, lr=0.015)


def alexnet_imagenette_36x() -> Run[LearnedGates]:
    """AlexNet on ten classes, 36x: every layer gated."""
    return _alexnet(_at(36, fade=True), epochs=50, lr=0.015)


def alexnet_imagenette_100x() -> Run[LearnedGates]:
    """AlexNet on ten classes, 100x: every layer gated."""
    return _alexnet(_at(100, listen=True, fade=True), epochs=50, lr=0.01)


def alexnet_imagenette_300x() -> Run[LearnedGates]:
    """AlexNet on ten classes, 300x: every layer gated."""
    return _alexnet(_at(300, listen=True, fade=True), epochs=50, lr=0.01)


def vgg16_imagenette_dense() -> Run[Dense]:
    """VGG-16 on ten classes, dense, from pretrained convolutions: --weights, --new-head."""
    return _vgg16(Dense(), epochs=6, lr=0.003)


def vgg16_imagenette() -> Run[LearnedGates]:
    """VGG-16 on ten classes at the paper's 14x: every layer gated."""
    # The convolutions that the paper leaves whole are 10.0 million of 134.3 million weights here:
    # at most 13x.
    return _vgg16(_at(14, fade=True), epochs=24, lr=0.0075)


def vgg16_imagenette_34x() -> Run[LearnedGates]:
    """VGG-16 on ten classes, 34x: every layer gated."""
    return _vgg16(_at(34, fade=True), epochs=20, lr=0.003)


def vgg16_imagenette_100x() -> Run[LearnedGates]:
    """VGG-16 on ten classes, 100x: every layer gated."""
    return _vgg16(_at(100, listen=True, fade=True), epochs=20, lr=0.003)


def vgg16_imagenette_300x() -> Run[LearnedGates]:
    """VGG-16 on ten classes, 300x: every layer gated."""
    return _vgg16(_at(300, listen=True, fade=True), epochs=20, lr=0.003)


def _at(rate: int, *, listen: bool = False, fade: bool = False) -> LearnedGates:
    """Returns a run with a given rate over all layers; gates start by size or by the loss."""
    return LearnedGates(
        target=Target(keep=1 / rate, **PHASES, listen=listen, follow=False),
        graded=not listen,
        fade=fade,
    )


def _gated(
    connected: tuple[str, ...],
    num_gates: int,
    *,
    steps: int,
    late: tuple[tuple[str, float], ...] = (),
) -> LearnedGates:
    """Gates on fully connected and late convolutional layers, started by weight size."""
    return LearnedGates(
        penalty=Penalty(count=COUNT),
        keep=CLOSED,
        keeps=late,
        only=(*connected, *(pattern for pattern, _ in late)),
        gate_lr=4 * num_gates / (10 * COUNT * steps),
        ramp=0.2,  # gates that start at 0.49 would open by chance before the price is there
    )


def _fine_tuned(model: str, method: LearnedGates, *, epochs: int, stop: Stop) -> Run[LearnedGates]:
    return Run(
        model=model,
        data="imagenet",
        method=method,
        epochs=epochs,
        batch_size=256,
        lr=1e-3,
        weight_decay=5e-4,
        stop=stop,
        shift=0,
        flip=True,
        crop=0.5,
        normalise="imagenet",
        precision="bf16",
        compile=True,
    )


def _alexnet(method: Dense | LearnedGates, *, epochs: int, lr: float) -> Run[Any]:
    return _on_imagenette("alexnet-torchvision", method, epochs=epochs, lr=lr, batch_size=128)


def _vgg16(method: Dense | LearnedGates, *, epochs: int, lr: float) -> Run[Any]:
    # Compiling takes half a minute, which six epochs do not give back.
    compiled = not isinstance(method, Dense)
    return _on_imagenette("vgg16", method, epochs=epochs, lr=lr, batch_size=64, compiled=compiled)


def _on_imagenette(
    model: str,
    method: Dense | LearnedGates,
    *,
    epochs: int,
    lr: float,
    batch_size: int,
    compiled: bool = False,
) -> Run[Any]:
    """Sparse networks learn mostly from the dense one, if --distil.teacher names its folder."""
    sparse = (
        {}
        if isinstance(method, Dense)
        else {"clip": CLIP, "distil": Teacher(temperature=2.0, share=0.9)}
    )
    return Run(
        model=model,
        data="imagenette",
        method=method,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        weight_decay=5e-4,
        warmup=0.1,
        shift=0,
        flip=True,
        crop=0.35,
        jitter=0.2,
        normalise="imagenet",
        stored_size=160,  # as large as the files are
        precision="bf16",
        compile=compiled,
        **sparse,  # type: ignore[arg-type]
    )
