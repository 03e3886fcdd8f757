"""A shift of all gates leaves as many open as are wanted."""

import pytest
import torch
from torch import nn

from sparsegate.gates import Sample, Threshold, gate, gates
from sparsegate.target.count import expected_open, num_true, shift_to


def spread(draw):
    """A hundred gates at 0.005, 0.015, ... 0.995."""
    model = gate(nn.Linear(100, 1), draw=draw)
    each = gates(model)["weight"]
    each.gate.data = (torch.arange(100.0).reshape(1, 100) + 0.5) / 100
    return [each]


@pytest.mark.parametrize(("wanted", "shift"), [(50.0, 0.0), (20.0, 0.3), (80.0, -0.3)])
def test_thresholded_gates_are_counted(wanted, shift):
    found = shift_to(spread(Threshold()), wanted, at_most=0.5)
    assert float(found) == pytest.approx(shift, abs=0.011)
    assert float(expected_open(spread(Threshold()), found)) == wanted


def test_sampled_gates_are_counted_by_their_chance():
    # gates lower by s and clipped at zero: about 100 * (1 - s)^2 / 2 are expected to be drawn
    found = float(shift_to(spread(Sample()), 12.5, at_most=1.0))
    assert found == pytest.approx(0.5, abs=0.01)


def test_the_shift_has_a_limit():
    assert float(shift_to(spread(Threshold()), 0.0, at_most=0.1)) == pytest.approx(0.1)
    assert float(shift_to(spread(Threshold()), 100.0, at_most=0.1)) == pytest.approx(-0.1, abs=2e-4)


def test_masks_are_counted_together():
    assert num_true([torch.tensor([True, False]), torch.ones(2, 2, dtype=torch.bool)]) == 5
