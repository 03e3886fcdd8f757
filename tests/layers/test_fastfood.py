"""Fastfood is S H G P H B, block by block, and stores three diagonals."""

import pytest
import torch
from torch import nn

from sparsegate.layers import Fastfood, Hadamard


def fastfood(inputs, out, **settings):
    torch.manual_seed(0)
    return Fastfood(nn.Linear(inputs, out), **settings)


def matrix(layer, block):
    """The product of the paper, written out."""
    n = layer.size
    h = Hadamard(n)(torch.eye(n))
    order = layer.order[block * n : (block + 1) * n] - block * n
    p = torch.eye(n)[order]
    return h @ torch.diag(layer.gains[block]) @ p @ h @ torch.diag(layer.signs[block])


@pytest.mark.parametrize("features", [3, 8, 20])
@torch.no_grad()
def test_it_is_the_product_of_the_paper(features):
    layer = fastfood(6, 5, features=features)
    layer.bias.normal_()
    layer.scales.normal_()
    x = torch.randn(4, 6)
    blocks = [nn.functional.pad(x, (0, 2)) @ matrix(layer, block).T for block in range(len(layer.gains))]
    wanted = torch.cat(blocks, 1)[:, :features] * layer.scales + layer.bias
    torch.testing.assert_close(layer(x), wanted, atol=1e-5, rtol=1e-4)


def test_blocks_have_permutations_of_their_own():
    first, second = fastfood(8, 16).order.reshape(2, 8)
    assert sorted(first.tolist()) == list(range(8))
    assert sorted(second.tolist()) == list(range(8, 16))
    assert not torch.equal(first, second - 8)


def test_it_stores_three_diagonals_and_no_permutation():
    layer = fastfood(800, 500, features=1024)
    assert layer.num_values == 3 * 1024
    assert {name: each.numel() for name, each in layer.state_dict().items()} == {
        "signs": 1024, "gains": 1024, "scales": 1024, "bias": 1024,
    }  # fmt: skip
    assert (layer.stands_for, layer.num_indices) == ((500, 800), 0)


def test_what_is_cut_off_is_not_stored():
    # two full diagonals of 8, five scales; no bias
    torch.manual_seed(0)
    assert Fastfood(nn.Linear(6, 5, bias=False)).num_values == 8 + 8 + 5


def test_the_same_seed_gives_the_same_permutation_whatever_the_random_state():
    torch.manual_seed(1)
    one = Fastfood(nn.Linear(8, 8), seed=3)
    other = Fastfood(nn.Linear(8, 8), seed=3)
    assert torch.equal(one.order, other.order)
    assert not torch.equal(one.order, Fastfood(nn.Linear(8, 8), seed=4).order)


def test_it_starts_with_outputs_as_large_as_he_starts_them():
    x = torch.randn(500, 1024)
    assert float(fastfood(1024, 1024)(x).detach().std()) == pytest.approx(2**0.5, rel=0.05)


def test_features_below_one_are_refused():
    with pytest.raises(ValueError, match="features is at least 1, got 0"):
        fastfood(4, 4, features=0)
