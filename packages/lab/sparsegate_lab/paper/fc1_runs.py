"""Runs with gates on fc1 alone, and the paper's three columns for them."""

from __future__ import annotations

from typing import Literal

from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study, Summary
from sparsegate_lab.train import Run

LAYER = "fc1.weight"


def threshold_sparsity(study: Study) -> Summary:
    """[T]: the percentage of fc1's weights that are zero in the finished network."""
    return study.summary(_sparsity)


def sampled_sparsity(study: Study) -> Summary:
    """[S]: the percentage of fc1's weights that a drawn mask is expected to remove."""
    return study.summary(lambda record: 100 * (1 - record.epochs[-1].keep))


def sampled_variance(study: Study) -> Summary:
    """[S]: the variance g(1-g) of one element of a drawn mask, in percent, averaged over gates."""
    return study.summary(lambda record: 100 * record.epochs[-1].variance)


def accuracy(study: Study) -> Summary:
    """Test accuracy of the finished network, whose mask is the threshold's."""
    return study.summary(lambda record: record.test)


def _sparsity(record: Record) -> float:
    return next(layer.sparsity for layer in record.layers if layer.name == LAYER)


DrawName = Literal["threshold", "sample"]
DRAWS: tuple[DrawName, ...] = ("threshold", "sample")

MODEL = "lenet5-lasagne"
START = 0.4995
GATE_LR = 80.0
EPOCHS = 4


def fc1_gated(
    *,
    bimodal: float = 0.0,
    count: float = 0.0,
    draw: DrawName = "threshold",
    start: float = START,
    model: str = MODEL,
) -> Run[LearnedGates]:
    """Returns a short run with a constant price; gates move until the end."""
    method = LearnedGates(
        penalty=Penalty(count=count, bimodal=bimodal),
        draw=draw,
        start=start,
        only=("fc1.*",),
        gate_lr=GATE_LR,
        ramp=0.0,
        freeze=1.0,
    )
    return Run(model=model, epochs=EPOCHS, method=method)


SETTING = (
    f"Setting: LeNet-5 with the biases and ReLU of Lasagne, the paper's library (`{MODEL}`). Only "
    "fc1 has gates. The price is a mean over the gates and is constant from the first step. "
    f"Unless varied, gates start at {START:g}; their learning rate is {GATE_LR:g} with momentum "
    f"0.9. Training takes {EPOCHS} epochs of MNIST with shifts of up to two pixels, and both "
    "learning rates follow a cosine to zero."
)
