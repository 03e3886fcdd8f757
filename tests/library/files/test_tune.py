"""Tuning moves the few values of a quantized network and nothing else."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from sparsegate.files import quantise_, shared_values, tune_
from sparsegate.files.tune import Shared, nearest


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
    with pytest.raises(ValueError, match="quantise_ first"):
        tune_(model, batches(1))
    assert type(model) is nn.Linear
    assert set(model.state_dict()) == {"weight", "bias"}


def test_values_and_their_gradients_are_those_of_indexing_a_book_with_every_place():
    model = quantised()
    weight = model[0].weight.detach()
    values = weight.unique()[weight.unique() != 0]
    one, other = nn.Parameter(values.clone()), nn.Parameter(values.clone())
    places = torch.where(weight == 0, 0, 1 + torch.searchsorted(values, weight))
    upstream = torch.randn_like(weight)
    plain = torch.cat([other.new_zeros(1), other])[places]
    shared = Shared(one, weight)(weight)
    (shared * upstream).sum().backward()
    (plain * upstream).sum().backward()
    assert torch.equal(shared, plain)
    torch.testing.assert_close(one.grad, other.grad)


def test_weights_that_move_take_other_values_of_the_same_few():
    still, moving = quantised(), quantised()
    old = moving[0].weight.detach().clone()
    tune_(still, batches(), lr=1e-6)
    tune_(moving, batches(), lr=1e-6, origin=copy.deepcopy(moving), move=0.02)
    new = moving[0].weight.detach()
    assert torch.equal(old == 0, new == 0)
    assert len(new.unique()) <= 9
    assert (old != new).sum() > 20 > (still[0].weight != old).sum()
    (inputs, labels), *_ = batches()
    assert F.cross_entropy(moving(inputs), labels) < F.cross_entropy(still(inputs), labels)


def test_layers_quantised_apart_keep_books_of_their_own_when_weights_move():
    model = quantised("layer")
    with shared_values(model, per="layer") as books:
        assert [len(book) for book in books] == [8, 8, 8]  # two weights, and the biases together
    tune_(model, batches(), per="layer", origin=copy.deepcopy(model), move=0.02)
    assert all(len(layer.weight[layer.weight != 0].unique()) <= 8 for layer in (model[0], model[2]))


def test_learning_rates_fall_to_zero_over_the_batches_that_are_told():
    after_all, after_one = quantised(), quantised()
    tune_(after_one, batches(1), lr=0.02, num_batches=1)
    tune_(after_all, batches(5), lr=0.02, num_batches=1)
    assert all(
        torch.equal(*pair)
        for pair in zip(after_all.parameters(), after_one.parameters(), strict=True)
    )


@given(
    st.lists(st.floats(-9, 9, width=16), min_size=1, max_size=9, unique=True),
    st.floats(-9, 9, width=16),
)
def test_the_nearest_value_is_found_in_a_book_in_whatever_order(book, number):
    values = torch.tensor(book)
    found = values[nearest(values, torch.tensor([number]))]
    assert (found - number).abs().item() == pytest.approx(
        (values - number).abs().min().item(), abs=1e-5
    )


def test_an_origin_of_another_shape_is_an_error():
    with pytest.raises(ValueError, match="before it was quantized"):
        tune_(quantised(), batches(1), origin=nn.Linear(3, 3))
