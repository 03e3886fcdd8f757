"""Layers use the weights above a threshold, and keep the others."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate_lab.layers import Thresholded, set_thresholds_, straight_through, thresholded, wrap_


class Hard(Thresholded):
    """Uses weights above the threshold as they are."""

    def used(self):
        weight = self.layer.weight
        return straight_through(weight, torch.where(weight.abs() > self.threshold, weight, 0.0))


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 5))
    return wrap_(model, {"0": Hard(model[0]), "2": Hard(model[2])})


def num_used(model):
    return sum(int(each.used().count_nonzero()) for each in thresholded(model))


def test_all_weights_are_used_at_first():
    assert num_used(network()) == 54 + 60


@pytest.mark.parametrize(
    ("keep", "left"), [(1.0, 114), (0.5, 57), (0.1, 11), (1e-9, 1), (113.4 / 114, 113)]
)
def test_exactly_the_wanted_fraction_of_all_layers_is_used(keep, left):
    model = network()
    set_thresholds_(model, keep)
    assert num_used(model) == left
    one, other = thresholded(model)
    assert torch.equal(one.threshold, other.threshold)


def test_a_threshold_falls_again():
    model = network()
    set_thresholds_(model, 0.1)
    set_thresholds_(model, 1.0)
    assert num_used(model) == 114


def test_the_layer_computes_with_what_is_used():
    model, image = network(), torch.randn(4, 2, 4, 4)
    set_thresholds_(model, 0.3)
    conv, linear = model[0], model[2]
    wanted = F.linear(
        F.conv2d(image, conv.used(), conv.layer.bias).flatten(1), linear.used(), linear.layer.bias
    )
    assert torch.equal(model(image), wanted)


def test_a_settled_layer_has_the_weights_that_were_used():
    layer = thresholded(network())[0]
    layer.threshold.fill_(0.1)
    used = layer.used().detach().clone()
    assert 0 < used.count_nonzero() < 54
    assert layer.settled() is layer.layer
    assert torch.equal(layer.layer.weight, used)


def test_gradients_go_straight_through_and_are_damped_where_nothing_is_used():
    weight = torch.tensor([2.0, 0.1], requires_grad=True)
    used = straight_through(weight, torch.tensor([1.0, 0.0]), to_unused=0.25)
    assert used.tolist() == [1.0, 0.0]
    (used * torch.tensor([3.0, 8.0])).sum().backward()
    assert weight.grad.tolist() == [3.0, 2.0]
