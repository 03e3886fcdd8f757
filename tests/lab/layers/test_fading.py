"""A network's own dropout, which falls with the connections left."""

import copy

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import FadingDropout, fade_dropout_, restore_dropout_, set_left_


def a_network():
    return nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Dropout(0.5), nn.Linear(100, 2))


def test_it_drops_the_rate_of_the_moment_and_keeps_the_mean():
    dropout = FadingDropout(0.5)
    dropout.fade_(0.25)
    torch.manual_seed(0)
    seen = dropout(torch.ones(100_000))
    assert float((seen == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(seen.mean()) == pytest.approx(1.0, abs=0.01)
    assert torch.equal(dropout.eval()(torch.ones(5)), torch.ones(5))


def test_the_rate_is_in_the_state_dict():
    model, other = a_network(), a_network()
    for each in (model, other):
        fade_dropout_(each)
    set_left_(model, 0.04)
    other.load_state_dict(model.state_dict())
    assert float(other[2].rates[1]) == pytest.approx(0.1)


def test_dropout_comes_back_with_its_first_rate_wherever_it_stands():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.3)
            self.inner = nn.Sequential(self.drop, nn.Linear(2, 2))

    model = Twice()
    fade_dropout_(model)
    assert model.drop is model.inner[0]
    assert isinstance(model.drop, FadingDropout)
    set_left_(model, 0.01)
    restored = copy.deepcopy(model)
    restore_dropout_(restored)
    assert restored.drop is restored.inner[0]
    assert type(restored.drop) is nn.Dropout
    assert restored.drop.p == pytest.approx(0.3)
