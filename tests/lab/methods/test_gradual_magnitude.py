"""Gradual magnitude: a cube of small cuts, ranked in three ways."""

import pytest
import torch
from torch import nn

from sparsegate.schedule import Gradual
from sparsegate_lab.layers import masks
from sparsegate_lab.methods import GradualMagnitude


def two_layers():
    """Weights of 0.01 to 1.00 in the first layer, of 1.01 to 1.40 in the second."""
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 4))
    with torch.no_grad():
        model[0].weight.copy_(torch.arange(1, 101).view(10, 10) / 100)
        model[1].weight.copy_(torch.arange(101, 141).view(4, 10) / 100)
    return model


def left_at(method, progress):
    model = method.prepare(two_layers())
    method.after_step(model, progress)
    return [int(layer.weight.count_nonzero()) for layer in model]


@pytest.mark.parametrize(
    ("progress", "left"), [(0.0, 140), (0.2, 140), (0.4, 30), (0.6, 14), (1.0, 14)]
)
def test_the_number_of_weights_falls_along_a_cube(progress, left):
    method = GradualMagnitude(keep=0.1, gradual=Gradual(begin=0.2, end=0.6))
    assert sum(left_at(method, progress)) == left  # at half: 0.1 + 0.9 / 8 of 140


def test_the_smallest_weights_of_the_network_go_first():
    assert left_at(GradualMagnitude(keep=0.25), 1.0) == [0, 35]


def test_every_layer_keeps_the_same_fraction_with_rank_layer():
    assert left_at(GradualMagnitude(keep=0.25, rank="layer"), 1.0) == [25, 10]


def test_lamp_keeps_the_largest_weight_of_every_layer():
    assert min(left_at(GradualMagnitude(keep=2 / 140, rank="lamp"), 1.0)) == 1


def test_there_are_as_many_cuts_as_asked_for():
    method = GradualMagnitude(keep=0.1, cuts=4, gradual=Gradual(begin=0.2, end=0.6))
    model, counts = method.prepare(two_layers()), []
    for step in range(100):
        method.after_step(model, step / 100)
        counts.append(sum(int(each.mask.sum()) for each in masks(model).values()))
    assert len(set(counts)) == 1 + 4
    assert counts[19] == 140
    assert counts[60] == 14


def test_a_removed_weight_stays_removed():
    method = GradualMagnitude(keep=0.5)
    model = method.prepare(two_layers())
    method.after_step(model, 0.8)
    nn.init.constant_(model[0].weight, 5.0)
    method.after_step(model, 0.9)
    assert model[0].weight.count_nonzero() == 30
    assert method.freezes_at == 0.7


def test_an_unknown_rank_is_refused():
    method = GradualMagnitude()
    object.__setattr__(method, "rank", "size")  # beartype, which only tests use, would come first
    with pytest.raises(ValueError, match="rank is one of network, layer, lamp, got 'size'"):
        method.__post_init__()


def test_no_cuts_are_refused():
    with pytest.raises(ValueError, match="cuts is at least 1, got 0"):
        GradualMagnitude(cuts=0)


@pytest.mark.parametrize(("begin", "end"), [(-0.1, 0.5), (0.5, 0.5), (0.2, 1.1)])
def test_a_schedule_that_cannot_be_is_refused(begin, end):
    with pytest.raises(ValueError, match="0 <= begin < end <= 1"):
        Gradual(begin=begin, end=end)
