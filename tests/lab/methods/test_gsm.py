"""Global sparse momentum: who feels the loss, and what is left."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import GSM
from sparsegate_lab.methods.gsm import select_gradients_


def weight(values, gradients):
    parameter = nn.Parameter(torch.tensor(values))
    parameter.grad = torch.tensor(gradients)
    return parameter


def test_only_the_weights_that_change_the_loss_most_keep_their_gradient():
    one = weight([1.0, -2.0], [1.0, 3.0])  # products: 1, 6
    other = weight([0.1, 4.0, 0.0], [10.0, -0.5, 100.0])  # 1, 2, 0
    select_gradients_([one, other], 0.4)
    assert one.grad.tolist() == [0.0, 3.0]
    assert other.grad.tolist() == [0.0, -0.5, 0.0]


def test_a_weight_without_a_gradient_is_left_alone():
    one, other = weight([1.0, 2.0], [1.0, 1.0]), nn.Parameter(torch.ones(2))
    select_gradients_([one, other], 0.5)
    assert one.grad.tolist() == [0.0, 1.0]
    assert other.grad is None


def trained(method, progress, training):
    torch.manual_seed(0)
    model = method.prepare(nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2)))
    optimizers = method.optimizers(model, training)
    model(torch.randn(5, 10)).square().sum().backward()
    method.before_step(model, optimizers, progress)
    optimizers[0].step()
    return sum(int(layer.weight.grad.count_nonzero()) for layer in model), model


@pytest.mark.parametrize(("progress", "moved"), [(0.1, 120), (0.3, 12), (0.9, 12)])
def test_gradients_are_selected_after_the_dense_phase(progress, moved, training):
    assert trained(GSM(keep=0.1, begin=0.3, cut=0.8), progress, training)[0] == moved


def test_biases_always_feel_the_loss(training):
    _, model = trained(GSM(keep=0.01), 0.5, training)
    assert model[0].bias.grad.count_nonzero() == 10


def test_the_cut_leaves_the_largest_weights_of_the_network(silent, training):
    method = GSM(keep=0.1, cut=0.8)
    _, model = trained(method, 0.5, training)
    largest = (
        torch.cat([layer.weight.detach().abs().flatten() for layer in model])
        .sort(descending=True)
        .values[:12]
    )
    method.after_epoch(model, silent, 0.7)
    assert model[0].weight.count_nonzero() == 100
    method.after_epoch(model, silent, 0.8)
    left = torch.cat([layer.weight.detach().flatten() for layer in model])
    assert torch.equal(left[left != 0].abs().sort(descending=True).values, largest)


def rate(method, progress):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    method.before_step(nn.Identity(), [optimizer], progress)
    return optimizer.param_groups[0]["lr"]


def test_the_learning_rate_stays_high_until_late():
    assert [rate(GSM(late=0.5), progress) for progress in (0.0, 0.5)] == [1.0, 1.0]
    assert rate(GSM(late=0.5), 0.75) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "settings", [{"keep": 0.0}, {"keep": 1.1}, {"begin": 0.9}, {"cut": 1.1}, {"late": 1.0}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        GSM(**settings)
