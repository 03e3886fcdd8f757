"""Learned gates that let the network's own dropout fade."""

import pytest
from torch import nn

from sparsegate.gates import require_gates
from sparsegate_lab.methods import LearnedGates


def a_network():
    return nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Dropout(0.5), nn.Linear(100, 2))


def test_gates_that_close_let_dropout_fade_and_the_finished_network_has_it_as_before(silent):
    method = LearnedGates(fade=True)
    model = method.prepare(a_network())
    assert float(model[2].rates[1]) == 0.5
    for each in require_gates(model).values():
        each.gate.data.view(-1)[each.gate.numel() // 25 :] = 0.0
    method.after_epoch(model, silent, 0.5)
    assert float(model[2].rates[1]) == pytest.approx(0.5 / 5, rel=1e-3)
    ordinary = method.finish(model)
    assert ordinary.state_dict().keys() == a_network().state_dict().keys()
    assert ordinary[2].p == 0.5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2)), "no nn.Dropout"),
        (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Dropout()), "none has gates"),
    ],
)
def test_what_cannot_fade_is_said(model, message):
    with pytest.raises(ValueError, match=message):
        LearnedGates(fade=True).prepare(model)
