"""Circulant layers: counted by hand, with signs of their own."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Circulant
from sparsegate_lab.methods.circulant import CirculantLayer
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


def circulant(inputs, out, **settings):
    torch.manual_seed(0)
    return CirculantLayer(nn.Linear(inputs, out), **settings)


@pytest.mark.parametrize(("inputs", "out"), [(6, 6), (7, 3), (4, 10), (5, 11)])
@torch.no_grad()
def test_it_multiplies_with_moved_copies_of_its_vector(inputs, out):
    layer = circulant(inputs, out)
    # Row i, column j of a block is entry (i - j) of its vector.
    places = (torch.arange(inputs)[:, None] - torch.arange(inputs)[None]) % inputs
    weight = torch.cat([vector[places] for vector in layer.vectors])[:out] * layer.signs
    x = torch.randn(2, 3, inputs)
    torch.testing.assert_close(layer(x), x @ weight.T + layer.bias, atol=1e-5, rtol=1e-4)


def test_every_row_is_the_one_before_moved_by_one():
    layer = circulant(5, 5)
    rows = (layer(torch.eye(5)) - layer.bias).detach().T * layer.signs
    torch.testing.assert_close(rows[1:], rows[:-1].roll(1, dims=1))


@pytest.mark.parametrize(("inputs", "out", "values"), [(800, 500, 800), (4, 10, 12), (6, 6, 6)])
def test_it_stores_one_vector_for_as_many_outputs_as_there_are_inputs(inputs, out, values):
    layer = circulant(inputs, out)
    assert (layer.num_values, layer.num_indices, layer.stands_for) == (values, 0, (out, inputs))
    assert list(layer.state_dict()) == ["vectors", "bias"]


def test_the_signs_come_from_the_seed():
    one, same, other = (circulant(64, 64, seed=seed).signs for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.unique().tolist() == [-1.0, 1.0]
