"""Optimal brain surgeon: the others make up for what is cut."""

import pytest
import torch
from torch import nn

from sparsegate.schedule import Rounds
from sparsegate_lab.methods import OBS


def correlated(num=400):
    """Inputs of which the second is nearly the first."""
    torch.manual_seed(0)
    images = torch.randn(num, 3)
    images[:, 1] = images[:, 0] + 0.01 * torch.randn(num)
    return images


def operated(judge_on, **settings):
    method = OBS(rounds=Rounds(count=1), damp=1e-4, **settings)
    model = method.prepare(nn.Sequential(nn.Linear(3, 2)))
    model[0].weight.data = torch.tensor([[1.0, 1.1, 0.5], [-1.0, -1.1, -0.5]])
    images = correlated()
    before = model(images).detach()
    method.after_epoch(model, judge_on(model, images, torch.zeros(400)), 1.0)
    return method, model, before


def test_a_twin_takes_over_the_weight_of_the_one_that_is_cut(judge_on):
    _, model, before = operated(judge_on, keep=4 / 6)
    assert model[0].weight.count_nonzero() == 4
    assert (
        model[0].weight[:, 2] != 0
    ).all()  # the smallest weight, but nobody could make up for it
    assert torch.allclose(model[0].weight.sum(1), torch.tensor([2.6, -2.6]), atol=0.02)
    assert (model(correlated()) - before).abs().max() < 0.1


def test_biases_make_up_for_inputs_with_a_mean(judge_on):
    method = OBS(keep=0.5, rounds=Rounds(count=1), damp=1e-6)
    model = method.prepare(nn.Sequential(nn.Linear(2, 2)))
    model[0].weight.data = torch.tensor([[1.0, 0.3], [-1.0, -0.3]])
    model[0].bias.data.zero_()
    torch.manual_seed(0)
    images = torch.stack([torch.randn(400), 2 + 0.01 * torch.randn(400)], dim=1)
    method.after_epoch(model, judge_on(model, images, torch.zeros(400)), 1.0)
    assert model[0].weight[:, 1].tolist() == [0.0, 0.0]
    assert model[0].bias.tolist() == [pytest.approx(0.6, abs=0.01), pytest.approx(-0.6, abs=0.01)]


def test_more_parts_end_at_the_same_fraction(judge_on):
    for parts in (1, 3):
        _, model, _ = operated(judge_on, keep=0.5, parts=parts)
        assert model[0].weight.count_nonzero() == 3


def test_what_was_cut_stays_out(judge_on):
    method, model, _ = operated(judge_on, keep=0.5)
    left = model[0].weight != 0
    model[0].weight.data += 1.0
    method.after_step(model, 1.0)
    assert torch.equal(model[0].weight != 0, left)
    assert list(method.finish(model).state_dict()) == ["0.weight", "0.bias"]


def test_nothing_is_measured_when_no_cut_is_due(silent):
    method = OBS()
    model = method.prepare(nn.Sequential(nn.Linear(3, 2)))
    method.after_epoch(model, silent, 0.1)
    assert model[0].weight.count_nonzero() == 6


@pytest.mark.parametrize("layer", [nn.Conv1d(1, 1, 1), nn.Conv2d(2, 2, 1, groups=2)])
def test_a_layer_that_it_cannot_serve_is_refused_before_training(layer):
    with pytest.raises(ValueError, match="obs supports Linear and ungrouped Conv2d, but 0 is"):
        OBS().prepare(nn.Sequential(layer))


@pytest.mark.parametrize(
    "settings", [{"keep": 0.0}, {"keep": 1.5}, {"parts": 0}, {"num_images": 0}, {"damp": 0.0}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        OBS(**settings)
