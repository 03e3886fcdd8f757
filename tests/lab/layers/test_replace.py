"""Fully connected layers are found by name and replaced wherever the model uses them."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import linears, replace_


def net():
    return nn.Sequential(
        nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    )


@pytest.mark.parametrize(
    ("only", "names"),
    [
        (("*",), ["0", "2.0", "2.1"]),
        (("2.*",), ["2.0", "2.1"]),
        (("0.weight", "*.1.*"), ["0", "2.1"]),
    ],
)
def test_layers_are_chosen_by_patterns_of_their_weights(only, names):
    assert list(linears(net(), only)) == names


def test_a_pattern_that_matches_nothing_is_answered_with_the_names_there_are():
    with pytest.raises(
        ValueError,
        match=r"matches only=\['fc9\.\*'\]; the model's are 0.weight, 2.0.weight, 2.1.weight",
    ):
        linears(net(), ("fc9.*",))


def test_a_model_without_fully_connected_layers_is_refused():
    with pytest.raises(ValueError, match="Sequential has no plain fully connected layer"):
        linears(nn.Sequential(nn.Conv2d(1, 2, 3)), ("*",))


def test_a_model_that_is_a_single_layer_is_refused():
    with pytest.raises(ValueError, match=r"put it into an nn\.Sequential"):
        linears(nn.Linear(2, 2), ("*",))


def test_a_tied_weight_is_refused():
    model = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 4))
    model[1].weight = model[0].weight
    with pytest.raises(ValueError, match=r"1\.weight is tied"):
        linears(model, ("*",))


def test_the_output_of_an_attention_is_not_a_plain_layer():
    assert list(linears(nn.Sequential(nn.MultiheadAttention(4, 2), nn.Linear(4, 4)), ("*",))) == [
        "1"
    ]


def test_a_layer_that_stands_in_two_places_is_replaced_in_both():
    shared = nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    new = nn.Identity()
    replace_(model, shared, new)
    assert model[0] is model[2] is new
    x = torch.ones(1, 3)
    assert torch.equal(model(x), x)


def test_a_layer_deep_inside_is_replaced():
    model = net()
    replace_(model, model[2][0], nn.Identity())
    assert isinstance(model[2][0], nn.Identity)
    assert isinstance(model[2][1], nn.Linear)
