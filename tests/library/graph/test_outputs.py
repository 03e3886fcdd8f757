"""Outputs are found in whatever a model gives."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from sparsegate.graph import outputs, tensors_in


@dataclass
class Pair:
    """What a model may give."""

    second: Tensor
    first: list[Tensor]
    itself: object = None


def test_tensors_are_found_in_objects_and_containers_once():
    one, two = torch.ones(1), torch.zeros(2)
    pair = Pair(one, [two])
    pair.itself = pair
    assert [len(found) for found in tensors_in({"a": (pair, 3), "b": pair, "c": None})] == [2, 1]


def test_the_tensors_of_a_cache_are_found_whatever_torch_knows_about_it():
    transformers = pytest.importorskip("transformers")
    cache = transformers.DynamicCache()
    cache.update(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    assert [tuple(found.shape) for found in tensors_in(cache)] == [(1, 2, 3, 4), (1, 2, 3, 4)]


def test_outputs_repeat_random_numbers_and_leave_the_mode():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    noisy = nn.Sequential(model, nn.RReLU())
    example = torch.randn(3, 2)
    assert torch.equal(outputs(noisy, example)[0], outputs(noisy, example)[0])
    assert model.training
