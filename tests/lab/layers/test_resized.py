"""A layer of another size computes as an ordinary one and remembers whom it replaces."""

import torch
from torch import nn

from sparsegate_lab.layers import Resized


def test_it_computes_as_the_layer_it_is_made_of():
    new = nn.Linear(7, 2)
    layer = Resized(nn.Linear(5, 2), by=new)
    x = torch.randn(3, 7)
    assert torch.equal(layer(x), new(x))
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_it_counts_its_own_numbers_and_remembers_the_old_shape():
    layer = Resized(nn.Linear(5, 2), by=nn.Linear(7, 2, bias=False))
    assert (layer.stands_for, layer.num_values, layer.num_indices) == ((2, 5), 14, 0)
