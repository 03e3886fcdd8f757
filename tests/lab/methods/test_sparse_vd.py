"""Sparse variational dropout: the price of certainty, and who moves what."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Noisy, divergence
from sparsegate_lab.methods import SparseVD


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
