"""With the biases and the rectifier of the paper's library, gates that are all closed can open."""

import pytest
import torch

from sparsegate.gates import Constant, Select, gate, gates
from sparsegate_lab.models import LeNet5, LeNet5Lasagne
from sparsegate_lab.models.lenet5_lasagne import half_rectifier


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.randn(6, 1, 28, 28)


def deaf_units(model, images):
    """How many units of a closed fc1 tell their gates nothing; the other layers are open."""
    gate(model, start=Constant(0.5), select=Select(names=("fc1.*",)))
    (model(images) - 1).square().sum().backward()
    return int((gates(model)["fc1.weight"].gate.grad == 0).all(1).sum())


def test_a_closed_layer_hears_everything_here_and_half_of_it_is_deaf_in_torchs(images):
    torch.manual_seed(0)
    assert deaf_units(LeNet5Lasagne(), images) == 0
    assert 200 < deaf_units(LeNet5(), images) < 300  # of 500, those with a negative bias


def test_training_and_inference_give_the_same_values(images):
    torch.manual_seed(0)
    model = LeNet5Lasagne()
    assert torch.equal(model.train()(images), model.eval()(images))


def test_the_rectifier_differs_from_torchs_in_its_gradient_at_zero_alone():
    x = torch.tensor([-2.0, -0.0, 0.0, 1e-30, 3.0], requires_grad=True)
    assert torch.equal(half_rectifier(x), torch.relu(x))
    (slope,) = torch.autograd.grad(half_rectifier(x).sum(), x)
    assert slope.tolist() == [0, 0.5, 0.5, 1, 1]
