"""The networks have the sizes that the literature counts."""

import pytest
import torch
from torch.nn import functional as F

from sparsegate.models import MODELS, LeNet5, LeNet300


def num_parameters(model, dimensions):
    return sum(each.numel() for each in model.parameters() if dimensions(each.ndim))


def test_lenet5_has_431080_parameters_of_which_430500_are_weights():
    model = LeNet5()
    # 20 filters of 1x5x5, 50 of 20x5x5, 500 units on 50x4x4, 10 on 500
    assert num_parameters(model, lambda ndim: ndim >= 2) == 20 * 25 + 50 * 20 * 25 + 800 * 500 + 500 * 10 == 430_500
    assert num_parameters(model, lambda ndim: ndim < 2) == 20 + 50 + 500 + 10 == 580
    assert num_parameters(model, lambda ndim: True) == 431_080


def test_lenet300_has_266610_parameters_of_which_266200_are_weights():
    model = LeNet300()
    assert num_parameters(model, lambda ndim: ndim >= 2) == 784 * 300 + 300 * 100 + 100 * 10 == 266_200
    assert num_parameters(model, lambda ndim: ndim < 2) == 300 + 100 + 10 == 410
    assert num_parameters(model, lambda ndim: True) == 266_610


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_classes", [2, 10])
def test_every_model_gives_a_logit_per_class_for_images_of_its_shape(name, num_classes):
    model = MODELS[name](num_classes=num_classes)
    assert model(torch.randn(3, *model.image_shape)).shape == (3, num_classes)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_the_same_again_from_the_same_seed(name):
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(torch.cat([each.flatten() for each in MODELS[name](num_classes=10).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_lenet5_pools_then_rectifies_which_equals_rectifying_first():
    torch.manual_seed(0)
    model, image = LeNet5(), torch.randn(4, 1, 28, 28)
    hidden = F.max_pool2d(F.relu(model.conv1(image)), 2)
    hidden = F.max_pool2d(F.relu(model.conv2(hidden)), 2)
    assert torch.equal(model(image), model.fc2(F.relu(model.fc1(hidden.flatten(1)))))


def test_lenet300_is_three_matrices_with_rectifiers_between():
    torch.manual_seed(0)
    model, image = LeNet300(), torch.randn(4, 1, 28, 28)
    first = (image.reshape(4, 784) @ model.fc1.weight.T + model.fc1.bias).clamp(min=0)
    second = (first @ model.fc2.weight.T + model.fc2.bias).clamp(min=0)
    torch.testing.assert_close(model(image), second @ model.fc3.weight.T + model.fc3.bias)
