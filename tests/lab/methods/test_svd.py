"""SVD: ranks by number or fraction, checked before training."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Svd
from sparsegate_lab.methods.svd import LowRank
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_biases, count_layers


def kept(method, model):
    return {layer.name: layer.kept for layer in count_layers(method.prepare(model, progress=1.0))}


def test_rank_ten_of_lenet_5_has_the_papers_parameters():
    # 43 500 = 500 + 25 000 + 10 * (500 + 800) + 5 000; the paper prints 43.6K
    counts = kept(Svd(rank=10), LeNet5())
    assert counts == {
        "conv1.weight": 500,
        "conv2.weight": 25_000,
        "fc1.weight": 13_000,
        "fc2.weight": 5_000,
    }


def test_a_quarter_of_the_rank_is_of_the_smaller_side_and_at_least_one():
    # fc1: 75 * (300 + 784), fc2: 25 * (100 + 300), fc3: 10 / 4 = 2 whole ones, 2 * (10 + 100)
    counts = kept(Svd(fraction=0.25, only=("fc*",)), LeNet300())
    assert counts == {"fc1.weight": 81_300, "fc2.weight": 10_000, "fc3.weight": 220}
    assert kept(Svd(fraction=0.01, only=("fc3.*",)), LeNet300())["fc3.weight"] == 110


def test_biases_stay_and_are_counted_apart():
    method = Svd(only=("fc*",), rank=2)
    assert count_biases(method.prepare(LeNet5(), progress=1.0))[0] == 580


def test_the_dense_network_is_remembered_as_the_total():
    method = Svd(only=("fc*",), rank=2)
    layers = count_layers(method.prepare(LeNet5(), progress=1.0))
    assert sum(layer.total for layer in layers) == 430_500
    assert layers[2].shape == (500, 800)


@pytest.mark.parametrize("rank", [0, 11])
def test_a_rank_above_the_matrixs_is_refused_before_training(rank):
    with pytest.raises(
        ValueError, match=rf"rank is from 1 to 10 for fc2\.weight of shape \(10, 500\), got {rank}"
    ):
        Svd(rank=rank, only=("fc2.*",)).prepare(LeNet5())


def test_a_model_without_fully_connected_layers_is_refused_before_training():
    with pytest.raises(ValueError, match="no plain fully connected layer"):
        Svd().prepare(nn.Sequential(nn.Conv2d(1, 1, 1)))


@pytest.mark.parametrize(
    "changes", [{"at": -0.1}, {"at": 1.5}, {"fraction": 0.0}, {"fraction": 25.0}]
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got"):
        Svd(**changes)


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
