"""Product quantisation: values and codes counted apart, refused before training."""

import dataclasses

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import ProductQuantised
from sparsegate_lab.methods.product_quantised import Codebook, kmeans
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


def test_a_weight_of_few_vectors_comes_back_whole():
    torch.manual_seed(0)
    dense = nn.Linear(6, 8)
    with torch.no_grad():  # two kinds of rows
        dense.weight.copy_(torch.randn(2, 6)[torch.tensor([0, 1, 0, 0, 1, 1, 0, 1])])
    layer = Codebook(dense, length=3, num_codes=4)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(layer(x), dense(x))


def test_every_stretch_is_a_vector_of_its_own_book():
    torch.manual_seed(0)
    layer = Codebook(nn.Linear(6, 8, bias=False), length=2, num_codes=3)
    weight = layer(torch.eye(6)).T
    for row in range(8):
        for place in range(3):
            wanted = layer.books[3 * place + int(layer.codes[row, place])]
            assert torch.equal(weight[row, 2 * place : 2 * place + 2], wanted)


@pytest.mark.parametrize(("num_codes", "bits"), [(2, 1), (3, 2), (16, 4), (17, 5), (256, 8)])
def test_the_numbers_of_lenet_5_by_hand(num_codes, bits):
    layer = Codebook(nn.Linear(800, 500), length=100, num_codes=num_codes)
    assert layer.num_values == 8 * num_codes * 100
    assert layer.num_indices == -(-500 * 8 * bits // 32)
    assert layer.codes.shape == (500, 8)
    assert layer.codes.dtype == torch.uint8
    assert layer.stands_for == (500, 800)


def test_the_vectors_learn_and_the_codes_stay():
    torch.manual_seed(0)
    layer = Codebook(nn.Linear(4, 6), length=2, num_codes=2)
    layer(torch.ones(1, 4)).sum().backward()
    # The gradient of a vector is the number of rows that use it.
    uses = torch.stack(
        [layer.codes[:, place].bincount(minlength=2) for place in range(2)]
    ).flatten()
    assert torch.equal(layer.books.grad, uses[:, None].float().expand(4, 2))
    assert "codes" in layer.state_dict()


@pytest.mark.parametrize(
    ("length", "num_codes", "said"),
    [
        (3, 4, "must divide the 8 inputs of the layer, got 3"),
        (0, 4, "got 0"),
        (2, 1, "from 2 to 6"),
        (2, 7, "from 2 to 6"),
    ],
)
def test_stretches_and_codes_that_do_not_fit_are_refused(length, num_codes, said):
    with pytest.raises(ValueError, match=said):
        Codebook(nn.Linear(8, 6), length=length, num_codes=num_codes)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_as_many_centres_as_points_are_the_points():
    points = torch.randn(6, 3)
    centres, nearest = kmeans(points, 6, seeded())
    torch.testing.assert_close(centres[nearest], points)


def test_every_centre_is_the_mean_of_its_points_and_the_nearest_to_them():
    points = torch.randn(200, 4, generator=seeded(1))
    centres, nearest = kmeans(points, 8, seeded())
    assert len(nearest.unique()) == 8
    for place, centre in enumerate(centres):
        torch.testing.assert_close(
            centre, points[nearest == place].mean(dim=0), atol=0.05, rtol=0.1
        )
    assert torch.equal(nearest, (points[:, None] - centres[None]).norm(dim=2).argmin(dim=1))


def test_clear_clusters_are_found():
    middles = torch.tensor([[0.0, 0.0], [10.0, 0.0]])
    points = (middles[:, None] + 0.1 * torch.randn(2, 50, 2, generator=seeded(2))).flatten(0, 1)
    centres, _ = kmeans(points, 2, seeded())
    torch.testing.assert_close(centres[centres[:, 0].argsort()], middles, atol=0.1, rtol=0)


def test_equal_points_leave_centres_without_points_where_they_are():
    centres, nearest = kmeans(torch.ones(5, 2), 3, seeded())
    assert torch.equal(centres, torch.ones(3, 2))
    assert nearest.tolist() == [0] * 5


def test_the_same_seed_gives_the_same_centres():
    points = torch.randn(50, 2)
    assert torch.equal(kmeans(points, 5, seeded(3))[0], kmeans(points, 5, seeded(3))[0])
