"""Fastfood: the paper's parameter counts, readers resized, bad input refused before training."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Resized
from sparsegate_lab.methods import Fastfood
from sparsegate_lab.methods.fastfood import FastfoodLayer, Hadamard
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_layers


def test_fastfood_1024_of_lenet_5_has_the_papers_parameters():
    # 38 812 = 500 + 25 000 + 3 * 1024 + 10 * 1024; the paper prints 38.8K
    layers = count_layers(Fastfood(features=1024).prepare(LeNet5()))
    assert [layer.kept for layer in layers] == [500, 25_000, 3_072, 10_240]
    assert [layer.total for layer in layers] == [500, 25_000, 400_000, 5_000]


def test_without_features_the_layer_keeps_its_outputs_and_its_reader():
    model = Fastfood().prepare(LeNet5())
    assert isinstance(model.fc1, FastfoodLayer)
    assert type(model.fc2) is nn.Linear
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_with_features_the_reader_is_resized():
    model = Fastfood(features=70).prepare(LeNet5())
    assert isinstance(model.fc2, Resized)
    assert model.fc2.weight.shape == (10, 70)
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_layers_have_permutations_of_their_own():
    model = Fastfood(only=("fc1.*", "fc2.*"), permutation=5).prepare(
        nn.ModuleDict({"fc1": nn.Linear(8, 8), "fc2": nn.Linear(8, 8)})
    )
    assert not torch.equal(model["fc1"].order, model["fc2"].order)


def test_a_reader_that_is_itself_replaced_is_refused():
    with pytest.raises(ValueError, match="only= replaces that layer too"):
        Fastfood(features=64, only=("fc1.*", "fc2.*")).prepare(LeNet300())


def test_an_output_layer_cannot_have_other_features():
    with pytest.raises(ValueError, match="fc3 cannot change"):
        Fastfood(features=64, only=("fc3.*",)).prepare(LeNet300())


def test_features_below_one_are_refused():
    with pytest.raises(ValueError, match="features is at least 1, got 0"):
        Fastfood(features=0)


def sylvester(size):
    """Entry (i, j) is minus one to the number of ones that i and j share in binary."""
    signs = [[(-1.0) ** (i & j).bit_count() for j in range(size)] for i in range(size)]
    return torch.tensor(signs) / size**0.5


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32, 64, 128, 512, 1024, 2048])
def test_it_is_sylvesters_matrix_for_every_size(size):
    torch.testing.assert_close(
        Hadamard(size)(torch.eye(size)), sylvester(size), atol=1e-6, rtol=1e-5
    )


def test_it_transforms_the_last_dimension_of_any_batch():
    x = torch.randn(3, 2, 64)
    torch.testing.assert_close(Hadamard(64)(x), x @ sylvester(64))


def test_twice_is_nothing_and_lengths_stay():
    x, transform = torch.randn(5, 256), Hadamard(256)
    torch.testing.assert_close(transform(transform(x)), x)
    torch.testing.assert_close(transform(x).norm(dim=1), x.norm(dim=1))


def test_the_gradient_is_the_transform_of_the_gradient():
    x = torch.randn(2, 64, requires_grad=True)
    above = torch.randn(2, 64)
    Hadamard(64)(x).backward(above)
    torch.testing.assert_close(x.grad, Hadamard(64)(above))


def test_it_stores_nothing():
    assert Hadamard(64).state_dict() == {}


@pytest.mark.parametrize("size", [0, 3, 100])
def test_other_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"is a power of two, got {size}"):
        Hadamard(size)
