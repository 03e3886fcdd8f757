"""Fastfood: the paper's parameter counts, readers resized, bad input refused before training."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import FastfoodLayer, Resized
from sparsegate_lab.methods import Fastfood
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
