"""A tensor is stored in the format that is cheapest for it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.files import FORMATS, Cost, pack_tensor, unpack_tensor
from sparsegate.files.tensors import to_elements


def random(shape, density, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=generator) < density
    return (1 + torch.rand(shape, generator=generator)) * mask


def few(*shape):
    weight = torch.zeros(shape)
    weight[..., shape[-1] // 2] = 1
    return weight


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("dense", torch.ones(300)),
        ("dense", torch.zeros(0, 3)),
        ("dense", torch.tensor(3.0)),
        ("bitmap", random((300, 300), 0.5)),
        ("gaps", random((300, 300), 0.05)),
        ("gaps", random((300, 300), 0.98)),
        ("gaps", torch.zeros(300, 300)),
        ("rows", few(1, 60_000)),  # two bytes for the count and two for the column
    ],
)
def test_each_format_is_the_cheapest_somewhere(name, tensor):
    assert pack_tensor(tensor).format.name == name


@given(st.tuples(st.integers(0, 40), st.integers(0, 40)), st.floats(0, 1), st.integers(0, 2**32))
def test_no_other_format_would_make_a_file_smaller_by_more_than_its_description(
    shape, density, seed
):
    tensor = random(shape, density, seed)
    entry = pack_tensor(tensor)
    costs = {name: each.cost(to_elements(tensor)).total for name, each in FORMATS.items()}
    assert entry.cost.total == costs[entry.format.name]
    assert entry.cost.total <= min(costs.values()) + 8 * 400
    assert entry.cost.total <= 8 * entry.num_bytes


@given(st.integers(0, 100), st.floats(0, 1))
def test_kept_are_the_elements_that_are_not_zero(size, density):
    tensor = random((size,), density)
    assert pack_tensor(tensor).kept == int(tensor.count_nonzero())


def test_what_a_mask_leaves_of_negative_weights_is_removed():
    weight = torch.full((1000,), -1.0)
    entry = pack_tensor(weight * torch.zeros(1000))
    assert entry.kept == 0
    assert not torch.signbit(unpack_tensor(entry)).any()
    assert weight.min() == -1


def test_the_tensor_is_not_the_one_that_was_stored():
    tensor = torch.ones(3)
    entry = pack_tensor(tensor)
    unpack_tensor(entry).zero_()
    assert unpack_tensor(entry).tolist() == tensor.tolist() == [1, 1, 1]


def test_what_happens_to_the_tensor_afterwards_does_not_reach_the_entry():
    tensor = torch.ones(3)
    entry = pack_tensor(tensor)
    tensor.mul_(2)
    assert unpack_tensor(entry).tolist() == [1, 1, 1]


def test_an_entry_of_nothing_but_zeros_costs_nothing():
    entry = pack_tensor(torch.zeros(100, 100))
    assert entry.cost == Cost()
    assert np.count_nonzero(unpack_tensor(entry).numpy()) == 0


def test_types_that_no_file_can_hold_are_refused_by_name():
    with pytest.raises(ValueError, match="complex128"):
        pack_tensor(torch.zeros(2, dtype=torch.complex128))
