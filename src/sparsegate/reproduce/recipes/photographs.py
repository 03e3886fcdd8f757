"""AlexNet and VGG-16 fine-tuned from pretrained weights, on ImageNet as the paper does it and on Imagenette."""

from __future__ import annotations

from sparsegate.methods import Dense, LearnedGates
from sparsegate.penalty import Penalty
from sparsegate.train import Run, Stop

# The paper: gates of fully connected layers start 95 % closed, at 0.49, those of convolutions open, of VGG-16's last
# two convolutions 88 % closed; 30 000 steps for AlexNet and 40 000 for VGG-16; training ends on compression and
# validation accuracy together. Of 1.28 million training images 1.23 million are left: 4 808 steps of 256 an epoch.
# Differs from the paper: 1. it names no prices, learning rates or sizes of batches. Ours on ImageNet follow from how
# far a gate goes by price alone, 10 * gate_lr * count * steps / gates, which is 4 at the full price; nobody has tried
# them there, because we have no ImageNet.
CLOSED = 0.05  # what is left open of fully connected layers
ALEXNET_GATES, VGG16_GATES = 60_954_656, 138_344_128
VGG16_KEEPS = (("features.26.*", 0.12), ("features.28.*", 0.12), ("features.*", 1.0))  # 26, 28: conv5_2, conv5_3
COUNT = 3.0


def gate_lr(num_gates: int, steps: int) -> float:
    """The gates' learning rate with which the price alone moves a gate by 4, less what ramp and cosine take."""
    return 4 * num_gates / (10 * COUNT * steps)


def alexnet_imagenet() -> Run[LearnedGates]:
    """The paper's AlexNet: 10.3x at 56.96 %, from 57.2 %. Needs --weights."""
    return Run(
        model="alexnet",
        data="imagenet",
        epochs=7,
        batch_size=256,
        lr=1e-3,
        weight_decay=5e-4,
        stop=Stop(rate=10.3, drop=0.25),
        shift=0,
        flip=True,
        crop=0.5,
        normalise="imagenet",
        precision="bf16",
        compile=True,
        method=LearnedGates(
            penalty=Penalty(count=COUNT),
            keep=CLOSED,
            keeps=(("conv*", 1.0),),
            gate_lr=gate_lr(ALEXNET_GATES, 30_000),
        ),
    )


def vgg16_imagenet() -> Run[LearnedGates]:
    """The paper's VGG-16: 14x at 69.04 %, from 68.97 %. Needs --weights."""
    return Run(
        model="vgg16",
        data="imagenet",
        epochs=9,
        batch_size=256,
        lr=1e-3,
        weight_decay=5e-4,
        stop=Stop(rate=14.0, drop=0.0),
        shift=0,
        flip=True,
        crop=0.5,
        normalise="imagenet",
        precision="bf16",
        compile=True,
        method=LearnedGates(
            penalty=Penalty(count=COUNT),
            keep=CLOSED,
            keeps=VGG16_KEEPS,
            gate_lr=gate_lr(VGG16_GATES, 40_000),
        ),
    )


def alexnet_imagenette_dense() -> Run[Dense]:
    """A baseline at full size; better with ImageNet's convolutions: --weights FILE --new-head 'classifier.*'."""
    return _on_imagenette("alexnet-torchvision", Dense(), epochs=60, lr=0.01)


def alexnet_imagenette() -> Run[LearnedGates]:
    """The paper's recipe on ten classes, from a dense run: --weights runs/alexnet-torchvision-dense-..."""
    # 57 035 456 gates without fc8's 990 classes; 8 527 training images are 66 steps of 128.
    method = LearnedGates(
        penalty=Penalty(count=COUNT),
        keep=CLOSED,
        keeps=(("features.*", 1.0),),
        gate_lr=gate_lr(57_035_456, 60 * 66),
    )
    return _on_imagenette("alexnet-torchvision", method, epochs=60, lr=0.003)


def vgg16_imagenette_dense() -> Run[Dense]:
    """A baseline at full size, from ImageNet's convolutions: --weights FILE --new-head 'classifier.*'."""
    return _on_imagenette("vgg16", Dense(), epochs=30, lr=0.01)


def vgg16_imagenette() -> Run[LearnedGates]:
    """The paper's recipe on ten classes, from a dense run: --weights runs/vgg16-dense-..."""
    # 134 289 088 gates without the last layer's 990 classes.
    method = LearnedGates(
        penalty=Penalty(count=COUNT), keep=CLOSED, keeps=VGG16_KEEPS, gate_lr=gate_lr(134_289_088, 30 * 66)
    )
    return _on_imagenette("vgg16", method, epochs=30, lr=0.003)


def _on_imagenette(model: str, method: Dense | LearnedGates, *, epochs: int, lr: float) -> Run:  # type: ignore[type-arg]
    return Run(
        model=model,
        data="imagenette",
        method=method,
        epochs=epochs,
        lr=lr,
        weight_decay=5e-4,
        warmup=0.05,
        shift=0,
        flip=True,
        crop=0.35,
        jitter=0.2,
        normalise="imagenet",
        stored_size=160,  # as large as the files are
        precision="bf16",
    )
