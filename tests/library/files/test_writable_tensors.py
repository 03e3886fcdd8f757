"""The memory of a model that can be written to directly is that which torch would only copy into."""

import pytest
import torch
from torch import nn

from sparsegate.files.writable_tensors import writable_tensors


class OwnWay(nn.Linear):
    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)


def with_hook(register):
    layer = nn.Linear(2, 2)
    getattr(layer, register)(lambda *arguments: None)
    return layer


def test_a_plain_layer_is_plain_and_what_is_written_to_its_memory_is_its_weight():
    layer = nn.Linear(2, 2)
    writable_tensors(layer)["weight"].fill_(7)
    assert layer.weight.tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize(
    "layer",
    [
        OwnWay(2, 2),
        nn.BatchNorm1d(2),
        nn.Linear(2, 2, device="meta"),
        nn.Conv2d(2, 2, 3).to(memory_format=torch.channels_last).requires_grad_(False),
        with_hook("register_load_state_dict_pre_hook"),
        with_hook("register_load_state_dict_post_hook"),
        with_hook("register_state_dict_pre_hook"),
        with_hook("register_state_dict_post_hook"),
    ],
    ids=[
        "own way",
        "norm",
        "meta",
        "channels last",
        "pre-hook",
        "post-hook",
        "pre-hook of saving",
        "post-hook of saving",
    ],
)
def test_a_layer_with_a_way_of_its_own_is_left_to_torch_and_its_neighbours_are_not(layer):
    found = set(writable_tensors(nn.Sequential(layer, nn.Linear(3, 3, bias=False))))
    assert found - {"0.bias"} == {"1.weight"}
    assert "0.bias" not in found or isinstance(layer, nn.Conv2d)


def test_a_hook_on_a_model_covers_all_that_is_in_it():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    model.register_load_state_dict_pre_hook(lambda *arguments: None)
    assert writable_tensors(model) == {}


def test_a_name_that_begins_like_that_of_a_special_layer_is_plain():
    model = nn.ModuleDict({"a": nn.BatchNorm1d(2), "ab": nn.Linear(2, 2)})
    assert sorted(writable_tensors(model)) == ["ab.bias", "ab.weight"]
