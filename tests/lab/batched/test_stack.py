"""Convolutions that are pooled by two and rectified are found, and no others."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate_lab.batched.layers import stacked_layers_
from sparsegate_lab.batched.stack import fuse_pools
from sparsegate_lab.models import MODELS


class Network(nn.Module):
    """A convolution, and something after it."""

    def __init__(self, after):
        super().__init__()
        self.conv, self.after = nn.Conv2d(1, 2, 3), after

    def forward(self, image):
        return self.after(self.conv(image))


def found(model: nn.Module) -> list[str]:
    layers = stacked_layers_(model)
    fuse_pools(model)
    return [name for name, layer in layers.items() if getattr(layer, "pooled", False)]


def test_both_convolutions_of_lenet5_are_found_and_nothing_is_left_of_their_pools():
    model = MODELS["lenet5"]()
    stacked_layers_(model)
    assert "max_pool2d" not in fuse_pools(model).code
    assert (model.conv1.pooled, model.conv2.pooled) == (True, True)


@pytest.mark.parametrize(
    "after",
    [
        lambda x: F.relu(F.max_pool2d(x, 3)),
        lambda x: F.relu(F.max_pool2d(x, 2, padding=1)),
        lambda x: F.relu(F.max_pool2d(x, 2, 1)),
        lambda x: F.relu(F.avg_pool2d(x, 2)),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.relu(x),
        lambda x: torch.cat([F.relu(F.max_pool2d(x, 2)), F.max_pool2d(x, 2)]),
    ],
)
def test_other_places_are_left_alone(after):
    assert found(Network(after)) == []


def test_the_plain_place_is_found():
    assert found(Network(lambda x: F.relu(F.max_pool2d(x, kernel_size=2)))) == ["conv"]


def test_a_model_that_cannot_be_traced_stays_as_it_is():
    model = Network(lambda x: F.relu(F.max_pool2d(x, 2)) if x.sum() > 0 else x)
    assert fuse_pools(model) is model
