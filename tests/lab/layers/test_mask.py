"""Fixed masks: what is cut stays exactly zero, and nothing is left of the masks at the end."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import add_masks, apply_masks_, cut_to_, masks, remove_masks


def two_layers():
    model = add_masks(nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)))
    model[0].weight.data = torch.tensor([[1.0, -5.0], [2.0, 0.5]])
    model[1].weight.data = torch.tensor([[-3.0, 4.0]])
    return model


def sizes(model):
    return {name: each.weight.detach().abs() for name, each in masks(model).items()}


def test_a_cut_leaves_the_highest_scores_of_the_whole_network():
    model = two_layers()
    assert cut_to_(model, 0.5, sizes(model))
    assert model[0].weight.tolist() == [[0.0, -5.0], [0.0, 0.0]]
    assert model[1].weight.tolist() == [[-3.0, 4.0]]


def test_what_was_cut_never_comes_back_and_an_emptied_layer_is_said():
    model = two_layers()
    cut_to_(model, 0.5, sizes(model))
    with pytest.warns(UserWarning, match="every weight of 0.weight has been cut"):
        cut_to_(model, 0.34, {name: -size for name, size in sizes(model).items()})
    assert model[0].weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert model[1].weight.tolist() == [[-3.0, 4.0]]


def test_a_cut_to_what_is_left_already_changes_nothing():
    model = two_layers()
    cut_to_(model, 0.5, sizes(model))
    before = {name: each.mask.clone() for name, each in masks(model).items()}
    assert not cut_to_(
        model, 0.5, {name: torch.rand_like(size) for name, size in sizes(model).items()}
    )
    assert all(torch.equal(each.mask, before[name]) for name, each in masks(model).items())


def test_ties_go_to_the_earlier_weight():
    model = two_layers()
    with pytest.warns(UserWarning, match=r"1.weight"):
        cut_to_(model, 1 / 6, {name: torch.zeros_like(size) for name, size in sizes(model).items()})
    assert model[0].weight.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_a_cut_weight_is_positive_zero_whatever_it_was():
    model = two_layers()
    cut_to_(model, 0.5, sizes(model))
    model[0].weight.data.fill_(-torch.inf)
    apply_masks_(model)
    assert not torch.signbit(model[0].weight[1]).any()
    assert torch.equal(model[0].weight[1], torch.zeros(2))


def test_channels_last_weights_are_cut_at_the_right_places():
    model = add_masks(nn.Sequential(nn.Conv2d(3, 4, 3))).to(memory_format=torch.channels_last)
    wanted = (
        model[0].weight.detach().abs() >= model[0].weight.detach().abs().flatten().sort().values[54]
    )
    cut_to_(model, 0.5, sizes(model))
    assert torch.equal(model[0].weight != 0, wanted)


def test_tied_weights_have_one_mask():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    assert list(masks(add_masks(nn.Sequential(first, second)))) == ["0.weight"]


def test_without_its_masks_a_model_is_what_it_was():
    model = remove_masks(two_layers())
    assert list(model.state_dict()) == ["0.weight", "1.weight"]


def test_a_model_without_weights_to_cut_is_refused():
    with pytest.raises(ValueError, match="nothing to prune"):
        add_masks(nn.Sequential(nn.BatchNorm1d(3)))
