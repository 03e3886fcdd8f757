"""ST-3, Feather and STR: what the forward pass uses, and which weights get gradients."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import thresholded
from sparsegate_lab.methods import ST3, Feather, LearnedThresholds

EVERY = [ST3(keep=0.1), Feather(keep=0.1), LearnedThresholds(keep=0.1)]
every_method = pytest.mark.parametrize("method", EVERY, ids=lambda method: type(method).__name__)


def network(method, progress):
    torch.manual_seed(0)
    model = method.prepare(nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10)))
    method.after_step(model, progress)
    return model


def gradient_of_first(method):
    """The gradient of the first layer's weight, and which of its elements are used."""
    model = network(method, 1.0)
    model(torch.randn(50, 10)).square().sum().backward()
    return model[0].layer.weight.grad, model[0].used() != 0


@every_method
@pytest.mark.parametrize(("progress", "left"), [(0.05, 200), (0.4, 42), (0.7, 20), (1.0, 20)])
def test_the_number_of_weights_falls_along_a_cube(method, progress, left):
    model = network(method, progress)
    assert sum(int(each.used().count_nonzero()) for each in thresholded(model)) == left


@every_method
def test_a_finished_network_computes_what_the_trained_one_did(method):
    model, inputs = network(method, 1.0), torch.randn(5, 10)
    wanted = model(inputs)
    finished = method.finish(model)
    assert torch.equal(finished(inputs), wanted)
    assert [type(each) for each in finished] == [nn.Linear, nn.ReLU, nn.Linear]
    weights = torch.cat([finished[0].weight.flatten(), finished[2].weight.flatten()])
    assert not weights[weights == 0].signbit().any()


@pytest.mark.parametrize("method", EVERY[:2], ids=["ST3", "Feather"])
def test_weights_that_are_not_used_get_a_gradient(method):
    grad, used = gradient_of_first(method)
    assert grad[~used].count_nonzero() > 20


def test_weights_that_are_not_used_get_no_gradient_in_str():
    grad, used = gradient_of_first(LearnedThresholds(keep=0.1))
    assert grad[~used].count_nonzero() == 0
    assert grad[used].count_nonzero() > 0


def test_str_learns_the_thresholds_of_layers():
    model = network(LearnedThresholds(keep=0.1), 1.0)
    model(torch.randn(50, 10)).square().sum().backward()
    assert all(float(each.own.grad) != 0 for each in thresholded(model))


def test_st3_shrinks_weights_by_the_threshold_and_can_restore_their_mean():
    plain, rescaled = (network(ST3(keep=0.1, rescale=each), 1.0)[2] for each in (False, True))
    weight = plain.layer.weight.detach()
    used, scaled = plain.used().detach(), rescaled.used().detach()
    live = used != 0
    assert torch.allclose(used[live].abs(), weight[live].abs() - plain.threshold, atol=1e-7)
    assert float(scaled.abs().sum()) == pytest.approx(float(weight[live].abs().sum()), rel=1e-5)


def test_feather_leaves_large_weights_nearly_as_they_are():
    layer = network(Feather(keep=0.3, power=3.0), 0.0)[0]
    layer.threshold.fill_(0.1)
    nn.init.constant_(layer.layer.weight, -0.3)
    # (0.3^3 - 0.1^3)^(1/3) = 0.026^(1/3)
    assert float(layer.used().detach()[0, 0]) == pytest.approx(-(0.026 ** (1 / 3)), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "factor"), [({"keep": 0.1}, 1.0), ({"keep": 0.05}, 0.5), ({"to_unused": 0.2}, 0.2)]
)
def test_feather_halves_gradients_of_unused_weights_in_very_sparse_networks(settings, factor):
    assert network(Feather(**settings), 0.0)[0].to_unused == factor


@pytest.mark.parametrize("settings", [{"power": 0.5}, {"to_unused": 1.5}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        Feather(**settings)
