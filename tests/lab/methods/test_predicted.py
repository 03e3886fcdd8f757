"""Predicted weights: channels found in the model, counted by hand, refused before training."""

import pytest

from sparsegate_lab.methods import Predicted
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_biases, count_layers


def test_the_channels_are_those_of_the_last_convolution():
    # 50 channels of 4 x 4; a quarter of 16 pixels: 500 * 50 * 4
    model = Predicted().prepare(LeNet5())
    assert [layer.kept for layer in count_layers(model)] == [500, 25_000, 100_000, 5_000]
    assert count_biases(model)[0] == 580


def test_without_convolutions_there_is_one_channel():
    assert count_layers(Predicted().prepare(LeNet300()))[0].kept == 300 * 196


def test_channels_may_be_given():
    assert count_layers(Predicted(channels=2).prepare(LeNet5()))[2].kept == 500 * 2 * 100


def test_a_layer_that_reads_no_picture_is_refused_before_training():
    with pytest.raises(ValueError, match="300 inputs are not a square image of 1 channels"):
        Predicted(only=("fc2.*",)).prepare(LeNet300())


@pytest.mark.parametrize("changes", [{"keep": 0.0}, {"keep": 25.0}, {"width": 0.0}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got"):
        Predicted(**changes)
