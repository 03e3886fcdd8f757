"""Predicted weights: channels found in the model, counted by hand, refused before training."""

import math

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Predicted
from sparsegate_lab.methods.predicted import PredictedLayer
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


def predicted(inputs, out, **settings):
    torch.manual_seed(0)
    return PredictedLayer(nn.Linear(inputs, out), **settings)


@torch.no_grad()
def weight(layer):
    return (layer(torch.eye(layer.stands_for[1])) - layer.bias).T


@torch.no_grad()
def test_the_weight_at_every_pixel_is_what_kernel_regression_says():
    layer = predicted(2 * 9, 1, channels=2, keep=0.3, width=1.5, seed=5)
    learned = (
        torch.randperm(9, generator=torch.Generator().manual_seed(5))[:3].sort().values.tolist()
    )
    k = [
        [math.exp(-(math.dist(divmod(a, 3), divmod(b, 3)) ** 2) / 4.5) for b in range(9)]
        for a in range(9)
    ]
    kernel = torch.tensor(k)
    inner = kernel[learned][:, learned] + 0.01 * torch.eye(3)
    for channel, values in enumerate(layer.learned.reshape(2, 3)):
        wanted = kernel[:, learned] @ torch.linalg.inv(inner) @ values
        torch.testing.assert_close(
            weight(layer)[0].reshape(2, 9)[channel], wanted, atol=1e-5, rtol=1e-4
        )


def test_learned_pixels_are_nearly_what_was_learned_and_neighbours_are_alike():
    layer = predicted(64, 3, channels=1, keep=0.1, width=1.0)
    pixels = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:6].sort().values
    torch.testing.assert_close(
        weight(layer)[:, pixels], layer.learned.detach(), atol=0.05, rtol=0.05
    )


def test_with_a_narrow_kernel_other_pixels_have_no_weight():
    # A kernel of 0.01 pixels predicts no neighbors: 16 - 4 pixels of 3 units get nothing.
    assert (
        int((weight(predicted(16, 3, channels=1, keep=0.25, width=0.01)).abs() < 1e-6).sum())
        == 3 * 12
    )


def test_the_numbers_of_lenet_5_by_hand():
    layer = predicted(800, 500, channels=50, keep=0.25)
    assert layer.num_values == 500 * 50 * 4
    assert list(layer.state_dict()) == ["learned", "bias"]
    assert (layer.stands_for, layer.num_indices) == ((500, 800), 0)


@torch.no_grad()
def test_it_starts_with_outputs_as_large_as_he_starts_them():
    layer = predicted(4 * 64, 500, channels=4, keep=0.25)
    layer.bias.zero_()
    assert float(layer(torch.randn(200, 256)).std()) == pytest.approx(math.sqrt(2), rel=0.1)


@pytest.mark.parametrize(("inputs", "channels"), [(800, 1), (800, 0), (300, 1)])
def test_inputs_that_are_no_picture_are_refused(inputs, channels):
    with pytest.raises(
        ValueError, match=f"{inputs} inputs are not a square image of {channels} channels"
    ):
        predicted(inputs, 4, channels=channels, keep=0.5)
