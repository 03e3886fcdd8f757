"""LeNet-5 on MNIST by methods that replace fully connected layers with other layers."""

from __future__ import annotations

from sparsegate_lab.methods import (
    Acdc,
    Circulant,
    Fastfood,
    Neuron,
    Predicted,
    ProductQuantised,
    Svd,
    TensorTrain,
)
from sparsegate_lab.train import Run

# The paper's parameter counts where it prints one for LeNet-5, its ratio for AlexNet where it
# prints that, else about the parameters of Fastfood-1024. conv1, conv2 and fc2 are 500 + 25 000 + 5
# 000 = 30 500 weights; fc1 has 400 000.
EPOCHS = 30  # as long as the others that are compared


def svd() -> Run[Svd]:
    """SVD of rank 10: 30,500 + 10 * (500 + 800) = 43,500 weights; printed: 43.6K at 98.47 %."""
    return Run(epochs=EPOCHS, method=Svd(rank=10))


def svd_quarter() -> Run[Svd]:
    """SVD-quarter-F of fc1: 30,500 + 125 * (500 + 800) = 193,000 weights, 2.2x; on AlexNet 2.4x."""
    # fc2 stays whole: a quarter of its rank would be 2, for ten classes.
    return Run(epochs=EPOCHS, method=Svd(fraction=0.25))


def fastfood_1024() -> Run[Fastfood]:
    """Adaptive Fastfood-1024: 25,500 + 13 * 1,024 = 38,812 weights; printed: 38.8K at 99.29 %."""
    return Run(epochs=EPOCHS, method=Fastfood(features=1024))


def fastfood_32() -> Run[Fastfood]:
    """The ratio of Adaptive Fastfood-32 on AlexNet, 2.7x: 25,500 + 133,120 = 158,620 weights."""
    # So many features make the first steps long: at the others' learning rate one seed of three
    # never learned.
    return Run(epochs=EPOCHS, lr=0.01, method=Fastfood(features=10 * 1024))


def fastfood_16() -> Run[Fastfood]:
    """The ratio of Adaptive Fastfood-16 on AlexNet, 3.7x: 25,500 + 13 * 7,168 = 118,684 weights."""
    return Run(epochs=EPOCHS, method=Fastfood(features=7 * 1024))


def acdc() -> Run[Acdc]:
    """ACDC's ratio on AlexNet, 5x, with its twelve steps: 30,500 + 36 * 1,536 = 85,796 weights."""
    return Run(epochs=EPOCHS, method=Acdc(depth=12, width=1536))


def neuron() -> Run[Neuron]:
    """Neuron pruning's ratio on AlexNet, 1.5x, without retraining: 25,500 + 315 * 810 = 280,650."""
    return Run(epochs=EPOCHS, method=Neuron(keep=0.63))


def tensor_train() -> Run[TensorTrain]:
    """30 500 + 11*25 + 11*11*25 + 11*11*40 + 11*16 = 38 816 weights."""
    return Run(epochs=EPOCHS, method=TensorTrain(rank=11, modes=4))


def circulant() -> Run[Circulant]:
    """30 500 + 800 = 31 300 weights."""
    return Run(epochs=EPOCHS, method=Circulant())


def predicted() -> Run[Predicted]:
    """Weights at two of sixteen pixels: 30,500 + 500 * 50 * 2 = 80,500 weights, 5x."""
    return Run(epochs=EPOCHS, method=Predicted(keep=0.125))


def product_quantised() -> Run[ProductQuantised]:
    """30,500 + 100 * 16 * 8 = 43,300 weights and 50,000 codes of 4 bits: 49,550 numbers in all."""
    return Run(epochs=EPOCHS, method=ProductQuantised(length=8, num_codes=16))
