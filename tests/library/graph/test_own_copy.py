"""Copies have weights of their own, and what cannot be copied is refused in words."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from sparsegate.graph import copied, unchecked


def test_a_copy_has_weights_of_its_own():
    model = nn.Linear(3, 2)
    other = copied(model)
    other.weight.data.zero_()
    assert model.weight.all()


def test_weights_that_torch_computes_before_every_call_are_named():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    prune.l1_unstructured(model[1], "weight", 0.5)
    with pytest.raises(ValueError, match=r"copied: 1\.weight is computed .*utils\.prune\.remove"):
        copied(model)
    prune.remove(model[1], "weight")
    assert torch.equal(copied(model)[1].weight, model[1].weight)


@pytest.mark.parametrize(
    ("model", "want"), [(torch.relu, "an nn.Module, got"), (None, "got NoneType")]
)
def test_what_is_no_model_is_refused(model, want):
    with unchecked(), pytest.raises(ValueError, match=want):
        copied(model)


def test_a_compiled_model_is_refused():
    with pytest.raises(ValueError, match=r"one from torch\.compile; pass its attribute _orig_mod"):
        copied(torch.compile(nn.Linear(3, 2)))
