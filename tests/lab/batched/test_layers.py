"""Layers of many members give each what its own layer would."""

import pytest
import torch
from torch import nn

from sparsegate_lab.batched.layers import ManyConv2d, ManyLinear, stacked_layers_


def filled(layer, ones):
    layer.weight = torch.stack([each.weight for each in ones])
    layer.bias = None if ones[0].bias is None else torch.stack([each.bias for each in ones])
    return layer


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    ones = [nn.Linear(3, 2, bias=bias) for _ in range(2)]
    inputs = torch.randn(8, 5, 3)
    wanted = torch.cat([one(part) for one, part in zip(ones, inputs.chunk(2), strict=True)])
    torch.testing.assert_close(filled(ManyLinear(), ones)(inputs), wanted)


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"stride": 2, "padding": 1}, {"groups": 2}]
)
def test_conv(options):
    ones = [nn.Conv2d(2, 4, 3, **options) for _ in range(3)]
    images = torch.randn(6, 2, 7, 7)
    wanted = torch.cat([one(part) for one, part in zip(ones, images.chunk(3), strict=True)])
    layer = filled(ManyConv2d(ones[0]), ones)
    torch.testing.assert_close(layer(images), wanted)
    torch.testing.assert_close(layer._as_groups(images), wanted)


def test_other_layers_with_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match=r"1 is a BatchNorm2d; many members .* Linear and Conv2d"):
        stacked_layers_(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))
    with pytest.raises(ValueError, match="the model itself is a Linear"):
        stacked_layers_(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="padding_mode reflect"):
        stacked_layers_(nn.Sequential(nn.Conv2d(1, 2, 3, padding_mode="reflect")))
