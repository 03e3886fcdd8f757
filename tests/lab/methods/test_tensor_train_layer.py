"""A tensor train multiplies with the weight that its cores make, and stores the cores alone."""

import math

import pytest
import torch
from torch import nn

from sparsegate_lab.methods.tensor_train import TensorTrainLayer


def train(inputs, out, **settings):
    torch.manual_seed(0)
    return TensorTrainLayer(nn.Linear(inputs, out), **settings)


def entry(layer, row, column):
    """One number of the weight: a product of matrices, one of each core."""
    rows = torch.unravel_index(torch.tensor(row), layer.outputs)
    columns = torch.unravel_index(torch.tensor(column), layer.inputs)
    product = torch.ones(1, 1)
    for place, core in enumerate(layer.cores):
        left, right = layer.ranks[place : place + 2]
        core = core.reshape(left, layer.inputs[place], layer.outputs[place], right)
        product = product @ core[:, columns[place], rows[place]]
    return float(product)


@pytest.mark.parametrize(
    ("inputs", "out", "modes"), [(12, 6, 2), (12, 8, 3), (16, 10, 4), (7, 5, 2)]
)
@torch.no_grad()
def test_it_multiplies_with_the_weight_that_the_cores_make(inputs, out, modes):
    layer = train(inputs, out, modes=modes, rank=3)
    weight = torch.tensor(
        [[entry(layer, row, column) for column in range(inputs)] for row in range(out)]
    )
    x = torch.randn(2, 3, inputs)
    torch.testing.assert_close(layer(x), x @ weight.T + layer.bias, atol=1e-5, rtol=1e-4)


def test_the_numbers_of_lenet_5_by_hand():
    # inputs 5 5 8 4, outputs 5 5 5 4: 1*5*5*8 + 8*5*5*8 + 8*8*5*8 + 8*4*4*1
    layer = train(800, 500, modes=4, rank=8)
    assert layer.num_values == 200 + 1600 + 2560 + 128
    assert sum(each.numel() for each in layer.state_dict().values()) == layer.num_values + 500
    assert (layer.stands_for, layer.num_indices) == ((500, 800), 0)


@torch.no_grad()
def test_it_starts_with_outputs_as_large_as_he_starts_them():
    layer = train(1024, 1024, modes=3, rank=16)
    layer.bias.zero_()
    assert float(layer(torch.randn(200, 1024)).std()) == pytest.approx(math.sqrt(2), rel=0.3)


@pytest.mark.parametrize("settings", [{"modes": 1}, {"rank": 0}])
def test_too_few_modes_or_ranks_are_refused(settings):
    with pytest.raises(ValueError, match="expected modes >= 2 and rank >= 1"):
        train(8, 8, **settings)
