"""Optimal brain damage: curvature as computed by hand, and cuts by it."""

import pytest
import torch
from torch import nn

from sparsegate.schedule import Rounds
from sparsegate_lab.methods import OBD
from sparsegate_lab.methods.obd import curvature


def two_classes(*weights):
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    model[0].weight.data = torch.tensor(weights)
    return model


def test_the_curvature_is_the_diagonal_of_the_gauss_newton_matrix():
    # For softmax regression the Hessian's diagonal is p_c (1 - p_c) x_i^2, whatever the labels.
    model = two_classes([0.4, 0.0], [0.0, 0.0])
    images = torch.tensor([[1.0, 3.0]]).expand(4000, 2)
    chance = torch.tensor([0.4, 0.0]).softmax(0)[0].item()
    found = curvature(model, ["0.weight"], images)["0.weight"]
    wanted = chance * (1 - chance) * torch.tensor([[1.0, 9.0], [1.0, 9.0]])
    assert torch.allclose(found, wanted, rtol=0.02)


def test_it_is_measured_in_eval_and_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9), nn.Linear(2, 2)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one = curvature(model, ["0.weight"], torch.ones(60, 2))
    assert torch.equal(
        one["0.weight"], curvature(model, ["0.weight"], torch.ones(60, 2))["0.weight"]
    )
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_small_weight_that_the_loss_feels_outlives_a_large_one_that_it_does_not(judge_on):
    method = OBD(keep=0.5, rounds=Rounds(count=1))
    model = method.prepare(two_classes([1.0, 0.2], [-1.0, -0.2]))
    images = torch.tensor([[0.01, 3.0]]).expand(100, 2)  # the first input hardly moves
    method.after_epoch(model, judge_on(model, images, torch.zeros(100)), 1.0)
    assert (model[0].weight != 0).tolist() == [[False, True], [False, True]]


def test_nothing_is_measured_when_no_cut_is_due(silent):
    method = OBD(keep=0.5)
    model = method.prepare(two_classes([1.0, 0.2], [-1.0, -0.2]))
    method.after_epoch(model, silent, 0.1)
    assert model[0].weight.count_nonzero() == 4


@pytest.mark.parametrize("settings", [{"keep": 0.0}, {"keep": 2.0}, {"num_images": 0}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        OBD(**settings)
