"""Tuning moves the few values of a quantised network and nothing else."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.compress import quantise_, shared_values, tune_


def quantised(per="network"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    with torch.no_grad():
        model[0].weight[torch.rand(20, 10) < 0.5] = 0
    quantise_(model, bits=3, per=per)
    return model


def batches(count=40):
    torch.manual_seed(1)
    inputs = torch.randn(64, 10)
    return [(inputs, inputs[:, :3].argmax(1))] * count


@pytest.mark.parametrize("per", ["network", "layer"])
def test_the_loss_falls_and_mask_and_clusters_stay(per):
    model = quantised(per)
    before = [each.detach().clone() for each in model.parameters()]
    (inputs, labels), *_ = batches()
    first = F.cross_entropy(model(inputs), labels).item()
    tune_(model, batches(), lr=0.02)
    assert F.cross_entropy(model(inputs), labels).item() < 0.9 * first
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old == 0, new == 0)
        for value in old.unique():
            assert len(new[old == value].unique()) == 1


def test_afterwards_the_model_is_ordinary_and_its_values_are_bfloat16s():
    model = quantised()
    keys = set(model.state_dict())
    tune_(model, batches(3))
    assert set(model.state_dict()) == keys
    assert type(model[0]) is nn.Linear
    assert all(torch.equal(each, each.bfloat16().float()) for each in model.parameters())


def test_the_function_is_the_same_while_nothing_has_moved():
    model, inputs = quantised(), torch.randn(5, 10)
    before = model(inputs)
    with shared_values(model) as books:
        assert len(books) == 2  # weights and biases
        assert torch.equal(model(inputs), before)
    assert torch.equal(model(inputs), before)


def test_a_model_that_is_not_quantised_is_an_error_and_stays_as_it_is():
    model = nn.Linear(30, 30)
    with pytest.raises(ValueError, match="quantise the model first"):
        tune_(model, batches(1))
    assert type(model) is nn.Linear
    assert set(model.state_dict()) == {"weight", "bias"}
