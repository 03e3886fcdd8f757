"""LeNet-5 on MNIST with learned gates, at the sizes of the paper's rows."""

from __future__ import annotations

from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run

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
