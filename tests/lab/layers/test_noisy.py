"""Noise in the weights, drawn in the outputs."""

import math

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Noisy, divergence


def noisy(layer, log_variance=-2.0, threshold=3.0):
    return Noisy(layer, log_variance=log_variance, threshold=threshold)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(6, 3), (6,)), (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 4, 4))],
)
def test_outputs_have_the_mean_and_variance_of_noisy_weights(layer, shape):
    torch.manual_seed(0)
    layer.weight.data.uniform_(0.3, 1.0)  # large enough that alpha is not clipped
    module, image = noisy(layer, threshold=8.1), torch.randn(1, *shape)
    with torch.no_grad():
        drawn = module(image.expand(20_000, *shape))
        by_hand = torch.stack([_with_noisy_weights(module, image) for _ in range(20_000)])
    assert torch.allclose(drawn.mean(0), layer(image)[0], atol=0.05)
    assert torch.allclose(drawn.var(0), by_hand.var(0)[0], rtol=0.1)


def _with_noisy_weights(module, image):
    layer = module.layer
    weight = layer.weight + torch.randn_like(layer.weight) * (module.log_variance / 2).exp()
    if isinstance(layer, nn.Linear):
        return nn.functional.linear(image, weight, layer.bias)
    return layer._conv_forward(image, weight, layer.bias)


def test_eval_computes_with_the_means_of_the_weights_that_live():
    module = noisy(nn.Linear(2, 1, bias=False), log_variance=0.0).eval()
    module.layer.weight.data = torch.tensor([[2.0, 0.1]])  # log alpha: -1.4 and 4.6
    assert module.alive().tolist() == [[True, False]]
    assert module(torch.ones(1, 2)).item() == 2.0
    assert module.without_noise().weight.tolist() == [[2.0, 0.0]]


def test_a_weight_with_too_much_noise_is_zero_in_training_too():
    module = noisy(nn.Linear(1, 1, bias=False), log_variance=0.0)
    module.layer.weight.data.fill_(0.1)
    assert module(torch.ones(5, 1)).abs().max() < 1e-3


def test_a_settled_layer_has_the_same_weights_and_no_noise():
    torch.manual_seed(0)
    module = noisy(nn.Linear(50, 40), log_variance=-3.0)  # about half of them live
    before, images = module.alive(), torch.randn(3, 50)
    module.settle_()
    module.settle_()  # as often as one likes
    assert torch.equal(module.alive(), before)
    assert 0 < before.sum() < before.numel()
    assert torch.allclose(module(images), module.eval()(images), atol=1e-3)
    module.layer.weight.data.fill_(1.0)
    assert torch.equal(module.alive(), before)


def test_the_divergence_is_the_published_approximation():
    module = noisy(nn.Linear(2, 1, bias=False))
    module.layer.weight.data = torch.tensor([[1.0, 1.0]])
    module.log_variance.data = torch.tensor([[-1.5, 0.5]])
    wanted = sum(
        0.63576
        - 0.63576 / (1 + math.exp(-1.8732 - 1.48695 * value))
        + 0.5 * math.log(1 + math.exp(-value))
        for value in (-1.5, 0.5)
    )
    assert divergence([module]).item() == pytest.approx(wanted, rel=1e-4)


def test_more_noise_is_cheaper():
    layer = nn.Linear(3, 3)
    costs = [divergence([noisy(layer, log_variance=value)]).item() for value in (-10.0, -5.0, 0.0)]
    assert costs == sorted(costs, reverse=True)


def test_the_divergence_of_several_layers_is_the_sum_of_theirs():
    layers = [
        noisy(nn.Linear(3, 2), log_variance=-1.0),
        noisy(nn.Conv2d(1, 2, 3), log_variance=-3.0),
    ]
    assert divergence(layers).item() == pytest.approx(
        sum(divergence([each]).item() for each in layers), rel=1e-5
    )
