"""Tensor trains: counted by hand, refused before training."""

import pytest
from torch import nn

from sparsegate_lab.methods import TensorTrain
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_biases, count_layers


def test_the_numbers_of_lenet_5_by_hand():
    # 34 988 = 500 + 25 000 + 4 488 + 5 000
    model = TensorTrain().prepare(LeNet5())
    assert [layer.kept for layer in count_layers(model)] == [500, 25_000, 4_488, 5_000]
    assert count_biases(model)[0] == 580


def test_several_layers_may_be_replaced():
    # fc3: inputs 5 5 2 2, outputs 5 2 1 1 at rank 1: 25 + 10 + 2 + 2
    counts = {
        layer.name: layer.kept
        for layer in count_layers(TensorTrain(rank=1, only=("fc*",)).prepare(LeNet300()))
    }
    assert counts["fc3.weight"] == 39


def test_a_model_without_fully_connected_layers_is_refused_before_training():
    with pytest.raises(ValueError, match="no plain fully connected layer"):
        TensorTrain().prepare(nn.Sequential(nn.Conv2d(1, 1, 1)))


@pytest.mark.parametrize("changes", [{"rank": 0}, {"modes": 1}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got rank="):
        TensorTrain(**changes)
