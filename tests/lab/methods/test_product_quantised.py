"""Product quantisation: values and codes counted apart, refused before training."""

import dataclasses

import pytest
import torch

from sparsegate_lab.methods import ProductQuantised
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import count_layers, train


def test_values_and_codes_of_lenet_5_by_hand():
    # values: 100 blocks, 16 vectors of 8; codes: 500 rows of 100 blocks, 4 bits each of 32
    method = ProductQuantised()
    layers = count_layers(method.prepare(LeNet5(), progress=1.0))
    assert [layer.kept for layer in layers] == [500, 25_000, 12_800, 5_000]
    assert [layer.num_indices for layer in layers] == [0, 0, 6_250, 0]


def test_a_record_counts_values_and_with_indices_the_codes_too(small, tmp_path):
    # fc1: 784 / 8 = 98 stretches; 300 rows
    record = train(small(method=ProductQuantised()), folder=tmp_path)
    assert record.kept == 98 * 16 * 8 + 30_000 + 1_000
    assert record.num_with_indices == record.kept + 300 * 98 * 4 // 32


@torch.no_grad()
def test_the_rebuilt_weight_is_near_the_trained_one():
    torch.manual_seed(0)
    method, model = ProductQuantised(num_codes=256, length=2), LeNet5()
    x = torch.randn(10, 800)
    wanted = model.fc1(x)
    found = method.prepare(model, progress=1.0).fc1(x)
    assert float((found - wanted).norm() / wanted.norm()) < 0.1


def test_codebooks_may_be_trained_on(small, tmp_path):
    run = small(method=ProductQuantised(at=0.5), lr=0.1)
    tuned = train(run, folder=tmp_path)
    cut = train(dataclasses.replace(run, method=ProductQuantised()), folder=tmp_path)
    assert tuned.kept == cut.kept
    assert tuned.epochs[0].kept == tuned.kept < cut.epochs[0].kept


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"length": 7}, "must divide the 800 inputs"),
        ({"num_codes": 257}, "num_codes is from 2 to 256"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(changes, said):
    with pytest.raises(ValueError, match=said):
        ProductQuantised(**changes).prepare(LeNet5())


def test_a_moment_outside_training_is_refused():
    with pytest.raises(ValueError, match="fraction of training"):
        ProductQuantised(at=1.5)
