"""LASSO: exact zeros by proximal steps, small weights cut after a penalty."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Lasso


def one_layer(method, values):
    model = method.prepare(nn.Sequential(nn.Linear(len(values), 1)))
    model[0].weight.data = torch.tensor([values])
    return model


def test_a_proximal_step_shrinks_large_weights_and_makes_small_ones_exactly_zero():
    method = Lasso(price=0.5, step=0.2)
    model = one_layer(method, [1.0, -0.3, 0.05, -0.1])
    method.after_step(model, 0.0)
    assert model[0].weight.tolist() == [[pytest.approx(0.9), pytest.approx(-0.2), 0.0, 0.0]]


def test_a_proximal_step_is_as_long_as_the_learning_rate_of_the_moment():
    method = Lasso(price=0.5, step=0.2)
    model = one_layer(method, [1.0])
    method.after_step(model, 0.5)
    assert model[0].weight.item() == pytest.approx(0.95)  # a cosine is at one half


def test_the_penalty_is_the_sum_of_sizes_and_leaves_biases_alone():
    method = Lasso(price=0.5, way="penalty")
    model = one_layer(method, [1.0, -3.0])
    method.loss_term(model, 0.0).backward()
    assert method.loss_term(model, 0.0).item() == 2.0
    assert model[0].weight.grad.tolist() == [[0.5, -0.5]]
    assert model[0].bias.grad is None
    assert Lasso().loss_term(model, 0.0) is None


def test_proximal_gradient_descent_solves_the_lasso():
    # The minimum of (w - 1)^2 / 2 + 0.3 |w| is 0.7, and of (w - 0.2)^2 / 2 + 0.3 |w| is 0.
    method = Lasso(price=0.3, step=0.1)
    model = one_layer(method, [0.0, 2.0])
    for _ in range(300):
        with torch.no_grad():
            model[0].weight -= 0.1 * (model[0].weight - torch.tensor([[1.0, 0.2]]))
        method.after_step(model, 0.0)
    assert model[0].weight.tolist() == [[pytest.approx(0.7, abs=1e-5), 0.0]]


def test_after_the_price_zeros_stay_zero_and_the_others_are_free():
    method = Lasso(price=0.5, step=0.2, until=0.5)
    model = one_layer(method, [1.0, 0.0])
    method.before_step(model, [torch.optim.SGD(model.parameters())], 0.5)
    model[0].weight.data += 1.0
    method.after_step(model, 0.5)
    assert model[0].weight.tolist() == [[2.0, 0.0]]


def test_the_penalty_ends_with_a_cut():
    method = Lasso(way="penalty", cut=0.1)
    model = one_layer(method, [1.0, -0.09, 0.11])
    assert method.finish(model)[0].weight.tolist() == [[1.0, 0.0, pytest.approx(0.11)]]
    assert list(model.state_dict()) == ["0.weight", "0.bias"]


@pytest.mark.parametrize(
    "settings", [{"price": -1.0}, {"step": 0.0}, {"cut": -1.0}, {"until": 0.0}, {"until": 1.5}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        Lasso(**settings)


def test_an_unknown_way_is_refused(python):
    ended = python(
        "-c", "from sparsegate_lab.methods import Lasso; Lasso(way='subgradient')"
    )  # without type checks
    assert "way is proximal or penalty, got 'subgradient'" in ended.stderr
