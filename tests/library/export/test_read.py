"""Networks are read as chains of layers, or refused by the name of what cannot be written."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.export.layer import ConvLayer, LinearLayer, PoolLayer
from sparsegate.export.read import read_network
from sparsegate_lab.models import LeNet5

IMAGE = torch.zeros(2, 1, 8, 8)


class Calls(nn.Module):
    """A convolution, and after it a function."""

    def __init__(self, function):
        super().__init__()
        self.conv, self.function = nn.Conv2d(1, 2, 3), function

    def forward(self, image):
        return self.function(self.conv(image))


def layers(model, example=IMAGE):
    return read_network(model, example).layers


def test_lenet5_is_four_layers_with_pooling_and_rectifiers_inside():
    first, second, third, last = layers(LeNet5(), torch.zeros(1, 1, 28, 28))
    assert [(type(each), each.tile, each.relu) for each in (first, second)] == [
        (ConvLayer, 2, True)
    ] * 2
    assert [(type(each), each.relu) for each in (third, last)] == [
        (LinearLayer, True),
        (LinearLayer, False),
    ]


def test_a_norm_goes_into_the_layer_before_or_stands_alone():
    torch.manual_seed(0)
    inside = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    alone = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2))
    assert [type(each) for each in layers(inside)] == [ConvLayer]
    assert [each.groups for each in layers(alone)] == [1, 2]


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.Flatten(), nn.BatchNorm1d(108), nn.ReLU(), nn.Linear(108, 2)
        ),
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.AvgPool2d(2), nn.Flatten(), nn.BatchNorm1d(27)),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 2)),
    ],
)
def test_a_norm_of_flattened_images_is_refused(model):
    with pytest.raises(
        ValueError, match="positions of flattened images, each by itself, which cannot be exported"
    ):
        layers(model)


def test_flattened_images_may_be_rectified_and_channels_of_one_place_normed():
    assert [
        type(each) for each in layers(nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(64, 2)))
    ] == [ConvLayer, LinearLayer]
    model = nn.Sequential(
        nn.Conv2d(1, 3, 8), nn.Flatten(), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)
    )
    assert [type(each) for each in layers(model)] == [ConvLayer, LinearLayer]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_example_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="example has values that are infinite or NaN"):
        layers(nn.Sequential(nn.Linear(3, 2)), torch.full((1, 3), value))


def test_functions_and_modules_read_the_same():
    one = layers(Calls(lambda x: F.dropout(F.avg_pool2d(x.relu(), 2), training=False).flatten(1)))
    other = layers(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(), nn.Flatten())
    )
    assert [type(each) for each in one] == [type(each) for each in other] == [ConvLayer, PoolLayer]
    assert (one[1].kernel, one[1].stride) == (other[1].kernel, other[1].stride) == ((2, 2), (2, 2))


def test_sizes_may_be_read_from_the_input():
    assert [type(each) for each in layers(Calls(lambda x: x.view(x.size(0), -1)))] == [ConvLayer]
    assert [type(each) for each in layers(Calls(lambda x: x.reshape(x.shape[0], -1)))] == [
        ConvLayer
    ]


def test_the_model_stays_as_it_is():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(), nn.Linear(2, 1)).train()
    nn.init.zeros_(model[2].weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    layers(model, torch.zeros(1, 3))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Calls(torch.sigmoid), "sigmoid .* cannot be exported; what can: Conv2d"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.GELU()), "gelu"),
        (nn.Sequential(nn.ConvTranspose2d(1, 2, 3)), "conv_transpose2d"),
        (Calls(lambda x: x + x), "add"),
        (Calls(lambda x: torch.cat([x, x.relu()])), "chains of operations"),
        (
            nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")),
            "pads with 'reflect'",
        ),
        (nn.Sequential(nn.Conv2d(1, 2, 2, padding="same")), "pads one side more"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(6, 2)), "flatten what it reads"),
        (Calls(lambda x: x.view(4, -1)), "only flattening"),
        (Calls(lambda x: F.dropout(x, training=True)), "active in eval mode"),
        (nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False)), "no running statistics"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(3)), "windows of unequal size"),
        (nn.Sequential(nn.AvgPool2d(2, divisor_override=3)), "overrides the divisor"),
    ],
)
def test_what_cannot_be_written_is_named(model, words):
    with pytest.raises(ValueError, match=words):
        layers(model)


@pytest.mark.parametrize(
    "example", [torch.zeros(1, 8, 8), torch.zeros(0, 1, 8, 8), torch.zeros(1, 1, 8, 8).int()]
)
def test_an_example_is_a_batch_of_images(example):
    with pytest.raises(ValueError, match="example is a batch of at least one image"):
        layers(nn.Sequential(nn.Conv2d(1, 2, 3)), example)


def test_weights_that_are_no_numbers_are_refused():
    model = nn.Sequential(nn.Linear(2, 1))
    model[0].weight.data[0, 0] = torch.inf
    with pytest.raises(ValueError, match="infinite or NaN"):
        layers(model, torch.zeros(1, 2))


def test_what_hooks_compute_is_read_too():
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    hook = model[0].register_forward_hook(lambda module, args, output: output.relu())
    assert [layer.relu for layer in layers(model)] == [True]
    hook.remove()
    model[0].register_forward_hook(lambda module, args, output: output * 2)
    with pytest.raises(ValueError, match=r"mul .* cannot be exported"):
        layers(model)
