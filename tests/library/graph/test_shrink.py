"""A shrunk model is an ordinary smaller one that computes the same."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.graph.shrink import shrink
from sparsegate_lab.models import LeNet5, LeNet300

IMAGES = torch.zeros(1, 1, 28, 28)


def without_(layer: nn.Module, units: list[int]) -> None:
    """Lets a layer read nothing for these units, so that each is constant."""
    layer.weight.data[units] = 0


def assert_same(smaller: nn.Module, model: nn.Module, inputs: Tensor) -> None:
    wanted = model.eval()(inputs)
    assert (smaller.eval()(inputs) - wanted).abs().max() <= 1e-6 * wanted.abs().max()


def test_the_units_that_are_left_can_be_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    without_(model[0], [1])
    smaller = shrink(model, torch.zeros(1, 2))
    assert torch.equal(smaller[0].weight, model[0].weight[[0, 2]])
    assert torch.equal(smaller[0].bias, model[0].bias[[0, 2]])
    assert torch.equal(smaller[2].weight, model[2].weight[:, [0, 2]])
    assert torch.allclose(
        smaller[2].bias, model[2].bias + model[2].weight[:, 1] * model[0].bias[1].relu()
    )
    assert repr(smaller[0]) == repr(nn.Linear(2, 2))


def test_a_channel_takes_its_block_of_features_along():
    torch.manual_seed(0)
    model = LeNet5()
    without_(model.conv1, [0, 7])
    without_(model.conv2, [3])
    model.fc2.weight.data[:, 100:] = 0
    smaller = shrink(model, IMAGES)
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in smaller.state_dict().items()
        if "weight" in name
    }
    assert shapes == {
        "conv1.weight": (18, 1, 5, 5),
        "conv2.weight": (49, 18, 5, 5),
        "fc1.weight": (100, 49 * 16),
        "fc2.weight": (10, 100),
    }
    kept = [feature for feature in range(800) if feature // 16 != 3]
    assert torch.equal(smaller.fc1.weight, model.fc1.weight[:100, kept])
    assert (smaller.conv2.in_channels, smaller.conv2.out_channels, smaller.fc1.in_features) == (
        18,
        49,
        784,
    )
    assert_same(smaller, model, torch.randn(9, 1, 28, 28))


def test_the_model_stays_as_it_is_and_names_stay():
    model = LeNet300().train()
    without_(model.fc1, list(range(200)))
    before = copy.deepcopy(model.state_dict())
    smaller = shrink(model, IMAGES)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert list(smaller.state_dict()) == list(before)
    assert model.training
    assert smaller.training
    assert type(smaller) is LeNet300


@pytest.mark.parametrize("keep", [0.01, 0.003])
@pytest.mark.parametrize("kind", [LeNet5, LeNet300])
def test_a_sparse_network_becomes_a_small_dense_one(kind, keep):
    torch.manual_seed(0)
    model = kind()
    for parameter in model.parameters():
        parameter.data *= (torch.rand(parameter.shape) < keep) | (parameter.ndim < 2)
    smaller = shrink(model, IMAGES)
    sizes = [sum(parameter.numel() for parameter in each.parameters()) for each in (smaller, model)]
    assert sizes[0] < 0.5 * sizes[1]
    assert_same(smaller, model, torch.randn(20, 1, 28, 28))


def test_norms_are_cut_with_their_units():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 3, 1),
        nn.BatchNorm2d(3, affine=False),
        nn.Flatten(),
        nn.BatchNorm1d(12),
        nn.Linear(12, 2),
    )
    model(torch.randn(50, 1, 6, 6))
    model[1].weight.data[2] = 0
    model[1].bias = None
    without_(model[4], [1])
    smaller = shrink(model, torch.zeros(2, 1, 6, 6))
    assert [smaller[place].num_features for place in (1, 5, 7)] == [3, 2, 8]
    assert torch.equal(smaller[1].running_var, model[1].running_var[[0, 1, 3]])
    assert [tuple(smaller[place].weight.shape) for place in (0, 4, 8)] == [
        (3, 1, 3, 3),
        (2, 3, 1, 1),
        (2, 8),
    ]
    assert_same(smaller, model, torch.randn(5, 1, 6, 6))


def test_one_unit_of_a_dead_layer_stays():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    without_(model[2], list(range(5)))
    smaller = shrink(model, torch.zeros(1, 3))
    assert [tuple(smaller[place].weight.shape) for place in (0, 2, 4)] == [(1, 3), (1, 1), (2, 1)]
    assert_same(smaller, model, torch.randn(4, 3))


def test_units_that_meet_groups_stay():
    model = nn.Sequential(
        nn.Conv1d(1, 4, 1),
        nn.Conv1d(4, 4, 1, groups=2),
        nn.ReLU(),
        nn.Conv1d(4, 6, 1),
        nn.ReLU(),
        nn.Conv1d(6, 1, 1),
    )
    without_(model[0], [1])
    without_(model[1], [2])
    without_(model[3], [0, 5])
    smaller = shrink(model, torch.zeros(1, 1, 3))
    assert [layer.out_channels for layer in smaller if isinstance(layer, nn.Conv1d)] == [4, 4, 4, 1]
    assert_same(smaller, model, torch.randn(4, 1, 3))


class Block(nn.Module):
    """A residual block, and what a function makes of its result and of its inner width."""

    def __init__(self, way=lambda x, width: x) -> None:
        super().__init__()
        self.stem, self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 6), nn.Linear(6, 4)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        hidden = F.relu(self.one(x))
        return self.way(x + self.two(hidden), hidden.shape[1])


def test_a_residual_block_loses_inner_units_and_those_that_are_dead_in_the_whole_sum():
    model = Block(lambda x, width: x[:, :3].contiguous())
    without_(model.stem, [0])
    without_(model.one, [0, 1])
    without_(model.two, [0])
    smaller = shrink(model, torch.zeros(1, 4))
    assert [layer.out_features for layer in (smaller.stem, smaller.one, smaller.two)] == [4, 4, 4]
    assert_same(smaller, model, torch.randn(4, 4))
    read = nn.Sequential(Block(), nn.ReLU(), nn.Linear(4, 2))
    without_(read[0].stem, [0])
    without_(read[0].two, [0])
    smaller = shrink(read, torch.zeros(1, 4))
    assert [layer.out_features for layer in (smaller[0].stem, smaller[0].two)] == [3, 3]
    assert (smaller[0].one.in_features, smaller[2].in_features) == (3, 3)
    assert_same(smaller, read, torch.randn(4, 4))


def test_a_mobile_block_loses_its_dead_channels():
    model = nn.Sequential(
        nn.Conv2d(2, 6, 1),
        nn.BatchNorm2d(6),
        nn.ReLU6(),
        nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU6(),
        nn.Conv2d(6, 3, 1),
    ).eval()
    model[6].weight.data[:, [1, 4]] = 0
    smaller = shrink(model, torch.zeros(1, 2, 5, 5))
    assert (smaller[3].groups, smaller[3].in_channels, smaller[3].out_channels) == (4, 4, 4)
    assert [tuple(smaller[index].weight.shape) for index in (0, 3, 6)] == [
        (4, 2, 1, 1),
        (4, 1, 3, 3),
        (3, 4, 1, 1),
    ]
    assert_same(smaller, model, torch.randn(3, 2, 5, 5))


@pytest.mark.parametrize(
    "way", [lambda x, width: x / width, lambda x, width: (x, x.new_zeros(width))]
)
def test_a_forward_that_computes_with_its_width_is_refused(way):
    model = Block(way)
    without_(model.one, [0, 1])
    with pytest.raises(
        ValueError, match="the forward of Block computes something else with fewer units"
    ):
        shrink(model, torch.ones(1, 4))


def test_a_forward_that_names_its_width_is_refused():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv1d(1, 4, 1), nn.Linear(12, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.conv(x).view(-1, 12))

    model = Fixed()
    assert_same(shrink(model, torch.zeros(2, 1, 3)), model, torch.randn(2, 1, 3))
    without_(model.conv, [0])
    with pytest.raises(
        ValueError, match=r"the forward of Fixed fails with fewer units \(.*write flatten\(1\)"
    ):
        shrink(model, torch.zeros(2, 1, 3))


def test_a_shrunk_model_learns_and_frozen_layers_stay_frozen():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    without_(model[0], [1])
    model[0].weight.requires_grad = False
    smaller = shrink(model, torch.zeros(1, 2))
    smaller(torch.ones(1, 2)).sum().backward()
    assert smaller[0].weight.grad is None
    assert smaller[2].weight.grad.shape == (2, 2)
