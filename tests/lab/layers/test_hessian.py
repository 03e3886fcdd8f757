"""The Hessian of a layer and its inverse agree with dense algebra."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import LayerHessian, hessian, measure_hessians
from sparsegate_lab.layers.hessian import rows_of


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
