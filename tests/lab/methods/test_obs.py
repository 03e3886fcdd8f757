"""Optimal brain surgeon: the others make up for what is cut."""

import pytest
import torch
from torch import nn

from sparsegate.schedule import Rounds
from sparsegate_lab.methods import OBS
from sparsegate_lab.methods import obs as hessian
from sparsegate_lab.methods.obs import LayerHessian, measure_hessians, rows_of


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


def a_hessian(fan_in=6, units=4):
    torch.manual_seed(0)
    rows = torch.randn(50, fan_in, dtype=torch.float64)
    return LayerHessian(rows.T @ rows / 50, torch.ones(units, dtype=torch.float64))


LIVE = torch.tensor(
    [[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 0]]
).bool()


@pytest.mark.parametrize("block", [1, 40, 2**25])
def test_the_inverse_is_that_of_each_units_live_weights_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(hessian, "BLOCK", block)
    found = a_hessian().inverse_diagonal(LIVE)
    for unit, live in enumerate(LIVE):
        wanted = torch.linalg.inv(a_hessian().inputs[live][:, live]).diagonal()
        assert torch.allclose(found[unit][live], wanted)
    assert (found[~LIVE] == 1).all()


def test_one_inverse_serves_all_units_before_the_first_cut():
    found = a_hessian().inverse_diagonal(torch.ones(4, 6, dtype=torch.bool))
    assert torch.allclose(found, torch.linalg.inv(a_hessian().inputs).diagonal().expand(4, 6))


@pytest.mark.parametrize("block", [1, 2**25])
def test_refitting_equals_the_surgeons_update_weight_by_weight(block, monkeypatch):
    monkeypatch.setattr(hessian, "BLOCK", block)
    weight = torch.randn(4, 6, dtype=torch.float64)
    found = a_hessian().refit(weight, LIVE)
    for unit, live in enumerate(LIVE):
        assert torch.allclose(found[unit], _surgery(weight[unit], live, a_hessian().inputs))


def _surgery(weight, live, matrix):
    """Hassibi and Stork: w -= w_q / [H^-1]_qq H^-1 e_q, for one weight after the other."""
    weight, left = weight.clone(), torch.ones_like(live)
    for out in (~live).nonzero().flatten():
        inverse = torch.zeros_like(matrix)
        inverse[left.nonzero(), left.nonzero().T] = torch.linalg.inv(matrix[left][:, left])
        weight -= weight[out] / inverse[out, out] * inverse[out]
        left[out] = False
    return weight * live


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(8, 5),
        nn.Linear(8, 5, bias=False),
        nn.Conv2d(2, 5, 3, stride=2, padding=1),
        nn.Conv2d(2, 5, (3, 2), padding="same", padding_mode="circular", dilation=2, bias=False),
    ],
)
def test_rows_are_what_every_unit_reads(layer):
    features = torch.randn(3, 8) if isinstance(layer, nn.Linear) else torch.randn(3, 2, 8, 8)
    out = layer(features).movedim(1, -1).reshape(-1, 5)
    weight = layer.weight.flatten(1)
    weight = weight if layer.bias is None else torch.cat([weight, layer.bias[:, None]], dim=1)
    assert torch.allclose(rows_of(layer, features) @ weight.T, out, atol=1e-5)


def test_for_softmax_regression_the_diagonal_is_that_of_the_loss():
    # The Hessian's diagonal is mean p_c (1 - p_c) x_i^2, a product if all images have the same p.
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    model[0].weight.data.zero_()
    images = torch.tensor([[1.0, 3.0], [1.0, -1.0]]).repeat(2000, 1)
    found = measure_hessians({"0": model[0]}, model, images, damp=1e-9)["0"]
    assert torch.allclose(found.factor, torch.full((2,), 0.25, dtype=torch.float64))
    assert torch.allclose(found.inputs, torch.tensor([[1.0, 1.0], [1.0, 5.0]], dtype=torch.float64))


def test_damping_makes_an_input_that_never_moves_invertible():
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    images = torch.tensor([[1.0, 0.0]]).repeat(10, 1)
    found = measure_hessians({"0": model[0]}, model, images, damp=0.1)["0"]
    assert found.inputs.diagonal().tolist() == [pytest.approx(1.05), pytest.approx(0.05)]


def test_measuring_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2)).train()
    measure_hessians({"0": model[0], "2": model[2]}, model, torch.randn(20, 4), damp=0.01)
    assert model.training
    assert not model[0]._forward_hooks
    assert all(parameter.grad is None for parameter in model.parameters())
