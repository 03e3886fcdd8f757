"""Dropout whose rate lives in the model and falls with the connections left."""

import copy

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import add_dropout, dropout_rates, remove_dropout, scale_dropout_


def a_model():
    return nn.Sequential(nn.Linear(4, 1000), nn.Linear(1000, 2))


def test_it_drops_the_rate_and_keeps_the_mean():
    model = add_dropout(nn.Sequential(nn.Linear(1, 1000), nn.Linear(1000, 1, bias=False)), 0.25)
    seen = []
    model[1].register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
    model[0].weight.data.fill_(1.0)
    model[0].bias.data.fill_(0.0)
    torch.manual_seed(0)
    model(torch.ones(50, 1))
    assert float((seen[0] == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(seen[0].detach().mean()) == pytest.approx(1.0, abs=0.02)


def test_eval_drops_nothing():
    model = a_model()
    inputs = torch.randn(3, 4)
    wanted = model(inputs)
    assert torch.equal(add_dropout(model, 0.5).eval()(inputs), wanted)


def test_the_rate_falls_with_the_root_of_the_connections_left():
    model = add_dropout(a_model(), 0.5)
    scale_dropout_(model, {model[1]: 0.25})
    scale_dropout_(model, {model[1]: 0.16})
    assert dropout_rates(model) == {
        "1": pytest.approx(0.2)
    }  # 0.5 * 0.16^0.5, not of what came before


def test_the_rate_is_in_the_state_dict():
    model = add_dropout(a_model(), 0.5)
    scale_dropout_(model, {model[1]: 0.25})
    other = add_dropout(a_model(), 0.5)
    other.load_state_dict(model.state_dict())
    assert dropout_rates(other) == {"1": 0.25}


def test_removing_it_from_a_copy_leaves_the_original():
    model = add_dropout(a_model(), 0.5)
    plain = remove_dropout(copy.deepcopy(model))
    inputs = torch.randn(3, 4)
    assert torch.equal(plain(inputs), plain(inputs))
    assert not torch.equal(model(inputs), model(inputs))
    assert list(plain.state_dict()) == list(a_model().state_dict())


def test_a_model_without_a_linear_that_is_fed_is_refused():
    with pytest.raises(ValueError, match="a Linear layer after another layer"):
        add_dropout(nn.Sequential(nn.Linear(2, 2)), 0.5)
