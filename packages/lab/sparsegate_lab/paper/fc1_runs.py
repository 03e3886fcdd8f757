"""LeNet-5 with gates on fc1 alone: the runs behind the paper's table of lambdas and its three curves."""

from __future__ import annotations

from typing import Literal

from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run

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
    """One short run: the price stands from the first step on, and the gates move to the end."""
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
    f"Setting: LeNet-5 with the biases and the rectifier of Lasagne, the paper's library (`{MODEL}`); only fc1 has "
    "gates; the price is a mean over them and stands from the first step. Unless varied, gates "
    f"start at {START:g}; their learning rate is {GATE_LR:g} with momentum 0.9; {EPOCHS} epochs of MNIST with shifts "
    "of two pixels; both learning rates fall on a cosine to zero."
)
