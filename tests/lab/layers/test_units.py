"""Gates on units: silent ones are zero, and their gates still feel the loss."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import GatedUnits


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(3, 4), (5, 3)), (nn.Linear(3, 4), (2, 5, 3)), (nn.Conv2d(2, 4, 3), (5, 2, 6, 6))],
)
def test_silent_units_are_zero_and_the_others_as_they_were(layer, shape):
    gated, features = GatedUnits(layer, start=0.9), torch.randn(*shape)
    assert torch.equal(gated(features), layer(features))
    gated.gate.data = torch.tensor([0.9, 0.5, 0.51, 0.0])
    axis = -1 if isinstance(layer, nn.Linear) else 1
    wanted = layer(features).movedim(axis, 0).clone()
    wanted[[1, 3]] = 0
    assert torch.equal(gated(features).movedim(axis, 0), wanted)
    assert torch.equal(gated.without_gates()(features).movedim(axis, 0), wanted)


def test_a_closed_gate_feels_what_its_unit_would_change():
    gated = GatedUnits(nn.Linear(1, 2, bias=False), start=0.0)
    gated.layer.weight.data = torch.tensor([[2.0], [-3.0]])
    gated(torch.tensor([[1.0], [10.0]])).sum().backward()
    assert gated.gate.grad.tolist() == [22.0, -33.0]
    assert gated.layer.weight.grad.tolist() == [[0.0], [0.0]]
