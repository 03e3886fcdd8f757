"""Losses that a refactoring must not change; to 0.1 %, because machines differ slightly."""

import pytest

from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run, train

GOLDEN = {
    "dense": [2.240752, 1.868913],
    "threshold": [2.116200, 1.340643],
    "sample": [2.303290, 2.266378],
}
GOLDEN["together"] = GOLDEN["threshold"]  # one optimizer makes the steps of two
METHODS = {
    "dense": Dense(),
    "threshold": LearnedGates(gate_lr=100.0),
    "sample": LearnedGates(gate_lr=100.0, draw="sample"),
    "together": LearnedGates(gate_lr=100.0, update="together"),
}


@pytest.mark.parametrize("name", list(GOLDEN))
def test_the_losses_are_the_golden_ones(name, digits, tmp_path):
    run = Run(model="lenet5", data=str(digits), method=METHODS[name], epochs=2, batch_size=90)
    losses = [epoch.loss for epoch in train(run, folder=tmp_path).epochs]
    assert losses == pytest.approx(GOLDEN[name], rel=1e-3)
