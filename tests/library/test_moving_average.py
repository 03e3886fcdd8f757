"""A moving average is the mean of what it saw, and resumes."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.gates import gate
from sparsegate.moving_average import MovingAverage


def seen(decay, values):
    layer = nn.Linear(1, 1)
    mean = MovingAverage(layer, decay=decay)
    for value in values:
        nn.init.constant_(layer.weight, value)
        mean.step()
    mean.apply_()
    return layer.weight.item()


def test_with_a_decay_of_one_it_is_the_plain_mean():
    assert seen(1.0, [1.0, 2.0, 3.0, 10.0]) == 4.0


def test_with_less_it_is_plain_at_first_and_then_forgets():
    # rates 1, 1/2, 1/2: ((1 + 3) / 2 + 8) / 2
    assert seen(0.5, [1.0, 3.0, 8.0]) == 5.0
    assert seen(0.0, [1.0, 3.0, 8.0]) == 8.0


def test_nothing_is_changed_before_it_is_applied_nor_without_a_step():
    layer = nn.Linear(2, 2)
    before = layer.weight.clone()
    mean = MovingAverage(layer)
    mean.apply_()
    mean.step()
    layer.weight.data.add_(1)
    assert torch.equal(layer.weight, before + 1)


def test_statistics_of_batch_normalisation_are_averaged_and_counters_left():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    mean, states = MovingAverage(model, decay=1.0), []
    for _ in range(4):
        model(torch.randn(8, 3))
        mean.step()
        states.append(model[1].running_mean.clone())
    mean.apply_()
    assert torch.allclose(model[1].running_mean, torch.stack(states).mean(0), atol=1e-6)
    assert model[1].num_batches_tracked == 4


def test_it_resumes_from_its_state_dict_bit_for_bit():
    torch.manual_seed(0)
    values = torch.randn(6, 2, 2)
    means = []
    for stop in (6, 3):
        layer = gate(nn.Linear(2, 2))
        mean = MovingAverage(layer, decay=0.7)
        for number, value in enumerate(values):
            if number == stop:
                saved, mean = copy.deepcopy(mean.state_dict()), MovingAverage(layer, decay=0.1)
                mean.load_state_dict(saved)
            layer.parametrizations.weight.original.data.copy_(value)
            mean.step()
        mean.apply_()
        means.append(layer.parametrizations.weight.original.clone())
    assert torch.equal(*means)


@pytest.mark.parametrize("decay", [-0.1, 1.1])
def test_a_decay_out_of_range_is_an_error(decay):
    with pytest.raises(ValueError, match=r"decay is in \[0, 1\]"):
        MovingAverage(nn.Linear(1, 1), decay=decay)
