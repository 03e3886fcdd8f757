"""LeNet-5 on MNIST with all layers gated: a short first run, and the sizes of the paper."""

from __future__ import annotations

from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run


def demo() -> Run[LearnedGates]:
    """A hundred times fewer weights, in a minute or two on two cores."""
    # 4 305 = 430 500 / 100.
    return Run(
        epochs=16, lr=0.05, method=LearnedGates(target=Target(weights=4305, begin=0.15, reach=0.6))
    )


def method1() -> Run[LearnedGates]:
    """The paper's sparser network: 24x at 99.19 % there."""
    return Run(epochs=80, method=LearnedGates(penalty=Penalty(count=12.0), freeze=0.75))


def method2() -> Run[LearnedGates]:
    """The paper's more accurate network: 19x at 99.33 % there."""
    return Run(epochs=80, method=LearnedGates(penalty=Penalty(count=3.0)))


def smallest_on_two_cores() -> Run[LearnedGates]:
    """200 times fewer weights, in some ten minutes on two cores."""
    # 2 152 = 430 500 / 200. No setting but the number of weights and of epochs: the target finds
    # the price.
    return Run(
        epochs=60,
        method=LearnedGates(target=Target(weights=2152, travel=10.0, begin=0.15, reach=0.6)),
    )


# As long as the methods that they are compared with. A lower price takes a higher learning rate of
# the gates: what moves a gate is the product.
EPOCHS = 30
GATE_LR = 10.0


def gates_18k() -> Run[LearnedGates]:
    """The size of the paper's Method-1: 18K weights at 99.19 % there."""
    return _gates(price=0.77)


def gates_22k() -> Run[LearnedGates]:
    """The size of the paper's Method-2: 22K weights at 99.33 % there."""
    return _gates(price=0.65)


def gates_36k() -> Run[LearnedGates]:
    """The size of Han et al."""
    return _gates(price=0.42)


def gates_40k() -> Run[LearnedGates]:
    """The size of Architecture Learning, between those of Fastfood-1024 and SVD."""
    return _gates(price=0.38)


def _gates(price: float) -> Run[LearnedGates]:
    return Run(epochs=EPOCHS, method=LearnedGates(penalty=Penalty(count=price), gate_lr=GATE_LR))
