"""Two thin matrices: the best approximation of a layer, counted by hand."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import LowRank


def layer(out, inputs, bias=True):
    torch.manual_seed(0)
    return nn.Linear(inputs, out, bias=bias)


def test_a_layer_of_that_rank_comes_back_whole():
    dense = layer(6, 8)
    with torch.no_grad():
        dense.weight.copy_(torch.randn(6, 2) @ torch.randn(2, 8))
    x = torch.randn(5, 8)
    torch.testing.assert_close(LowRank(dense, rank=2)(x), dense(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 3, 6])
@torch.no_grad()
def test_what_is_lost_is_the_smaller_singular_values(rank):
    dense = layer(6, 8)
    thin = LowRank(dense, rank=rank)
    lost = torch.linalg.matrix_norm(dense.weight - thin.left @ thin.right) ** 2
    assert float(lost) == pytest.approx(
        float((torch.linalg.svdvals(dense.weight)[rank:] ** 2).sum()), abs=1e-6
    )


@torch.no_grad()
def test_both_factors_are_of_one_size():
    thin = LowRank(layer(50, 20), rank=4)
    assert float(thin.left.norm()) == pytest.approx(float(thin.right.norm()), rel=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_the_numbers_of_a_toy(bias):
    thin = LowRank(layer(6, 8, bias), rank=3)
    assert thin.stands_for == (6, 8)
    assert thin.num_values == 3 * (6 + 8)
    assert thin.num_indices == 0
    assert sum(each.numel() for each in thin.parameters()) == 42 + 6 * bias
    assert thin(torch.zeros(2, 4, 8)).shape == (2, 4, 6)


@pytest.mark.parametrize("rank", [0, 7])
def test_a_rank_that_the_matrix_cannot_have_is_refused(rank):
    with pytest.raises(ValueError, match=rf"from 1 to 6 for a weight of \(6, 8\), got {rank}"):
        LowRank(layer(6, 8), rank=rank)
