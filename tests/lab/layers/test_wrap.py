"""Wrappers stand at the place of a layer and leave it where it was."""

import pytest
from torch import nn

from sparsegate_lab.layers import layers_of, unwrap_, wrap_


def wrapped(model):
    return wrap_(model, {name: nn.Sequential(layer) for name, layer in layers_of(model).items()})


def test_what_is_wrapped_and_unwrapped_is_the_same_model():
    model = nn.ModuleDict(
        {"a": nn.Linear(2, 2), "b": nn.ModuleList([nn.Conv2d(1, 1, 1)]), "c": nn.ReLU()}
    )
    before, names = dict(model.named_modules()), list(model.state_dict())
    wrapped(model)
    assert list(model.state_dict()) == ["a.0.weight", "a.0.bias", "b.0.0.weight", "b.0.0.bias"]
    unwrap_(model, nn.Sequential, lambda wrapper: wrapper[0])
    assert dict(model.named_modules()) == before
    assert list(model.state_dict()) == names


def test_a_shared_layer_has_one_wrapper():
    layer = nn.Linear(2, 2)
    model = wrapped(nn.ModuleList([layer, layer]))
    assert model[0] is model[1]
    assert unwrap_(model, nn.Sequential, lambda wrapper: wrapper[0])[1] is layer


def test_a_model_that_is_a_layer_is_refused():
    with pytest.raises(ValueError, match=r"put it into an nn.Sequential"):
        wrapped(nn.Linear(2, 2))


def test_a_model_without_layers_is_refused():
    with pytest.raises(ValueError, match="no layer of the types Linear"):
        layers_of(nn.Sequential(nn.ReLU()))
