"""Sparse variational dropout: the price of certainty, and who moves what."""

import math

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import SparseVD
from sparsegate_lab.methods.sparse_vd import Noisy, divergence


def prepared(**settings):
    torch.manual_seed(0)
    method = SparseVD(**settings)
    return method, method.prepare(
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    )


def test_the_price_rises_from_zero_to_the_divergence_of_one_image():
    method, model = prepared(wait=0.2, ramp=0.4, num_images=10, price=2.0)
    whole = divergence([each for each in model.modules() if isinstance(each, Noisy)]).item()
    heights = [
        method.loss_term(model, progress).item() / (whole * 2 / 10)
        for progress in (0.1, 0.2, 0.3, 0.4, 1.0)
    ]
    assert heights == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.0], abs=1e-6)


def parameters(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"]]


def test_every_parameter_is_moved_by_one_optimiser(training):
    method, model = prepared()
    rest, own = (parameters(each) for each in method.optimizers(model, training))
    moved = [id(each) for each in [*own, *rest]]
    assert len(own) == 4
    assert sorted(moved) == sorted(id(each) for each in model.parameters())


def test_learning_rates_fall_in_a_line(training):
    method, model = prepared(mean_lr=0.1, variance_lr=0.4)
    sgd, optimizer = method.optimizers(model, training)
    method.before_step(model, [sgd, optimizer], 0.75)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.025, 0.1])


def test_a_high_price_drives_weights_out_that_the_task_does_not_need(training):
    method, model = prepared(num_images=1, wait=0.0, ramp=0.0, variance_lr=0.1)
    _, optimizer = method.optimizers(model, training)
    for _ in range(500):
        method.loss_term(model, 1.0).backward()
        optimizer.step()
        optimizer.zero_grad()
    plain = method.finish(model)
    assert type(plain[0]) is nn.Linear
    assert plain[0].weight.count_nonzero() + plain[2].weight.count_nonzero() == 0


def test_after_the_freeze_only_the_weights_that_are_left_move(training):
    method, model = prepared(freeze=0.5, log_variance=1.0)
    sgd, optimizer = method.optimizers(model, training)
    method.after_step(model, 0.5)
    alive = model[0].alive()
    assert 0 < alive.sum() < alive.numel()
    first, noise = model[0].layer.weight.detach().clone(), model[0].log_variance.detach().clone()
    for _ in range(5):
        method.before_step(model, [sgd, optimizer], 0.6)
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(model, 0.6)
    assert method.loss_term(model, 0.6) is None
    assert method.freezes_at == 0.5
    moved = model[0].layer.weight != first
    assert moved.any()
    assert not (moved & ~alive).any()
    assert torch.equal(model[0].log_variance, noise)


def test_without_a_freeze_the_noise_stays_to_the_end():
    method, model = prepared()
    before = model[0].log_variance.detach().clone()
    method.after_step(model, 0.999)
    assert torch.equal(model[0].log_variance, before)
    assert method.freezes_at is None


@pytest.mark.parametrize(
    "settings",
    [
        {"price": -1.0},
        {"num_images": 0},
        {"wait": 0.5, "ramp": 0.4},
        {"mean_lr": 0.0},
        {"variance_lr": -1.0},
        {"freeze": 0.0},
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        SparseVD(**settings)


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
