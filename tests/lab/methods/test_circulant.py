"""Circulant layers: counted by hand, with signs of their own."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Circulant
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_biases, count_layers


def test_the_numbers_of_lenet_5_by_hand():
    # 31 300 = 500 + 25 000 + 800 + 5 000
    model = Circulant().prepare(LeNet5())
    assert [layer.kept for layer in count_layers(model)] == [500, 25_000, 800, 5_000]
    assert count_biases(model)[0] == 580


def test_layers_have_signs_of_their_own():
    model = Circulant(only=("fc1.*", "fc2.*")).prepare(LeNet300())
    assert not torch.equal(model.fc1.signs[:300], model.fc2.signs)


def test_a_model_without_fully_connected_layers_is_refused_before_training():
    with pytest.raises(ValueError, match="no plain fully connected layer"):
        Circulant().prepare(nn.Sequential(nn.Conv2d(1, 1, 1)))
