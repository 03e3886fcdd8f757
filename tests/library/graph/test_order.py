"""Ordering units changes no output, and makes files smaller."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.files import compress, encode_sg
from sparsegate.graph import order_units_, remove_dead_paths
from sparsegate_lab.models import LeNet5
from sparsegate_runtime.files.sg.mask import is_sorted


def sparse_(model, keep=0.1):
    torch.manual_seed(0)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.randn_like(each))
            if each.ndim >= 2:
                each.mul_(torch.rand_like(each) < keep).add_(0.0)
    return model.eval()


def size(model):
    return len(encode_sg(compress(model).entries, {})[0])


def test_lenet5_computes_the_same_and_its_file_is_smaller():
    model = sparse_(LeNet5(), keep=0.02)
    remove_dead_paths(model, torch.zeros(1, 1, 28, 28))
    ordered, images = copy.deepcopy(model), torch.randn(4, 1, 28, 28)
    order_units_(ordered, images)
    torch.testing.assert_close(ordered(images), model(images))
    for layer in (ordered.conv1, ordered.conv2, ordered.fc1):
        assert is_sorted((layer.weight != 0).flatten(1).numpy())
    assert torch.equal(ordered.fc2.bias, model.fc2.bias)
    assert size(ordered) < size(model) - 100


def test_norms_and_several_readers_follow():
    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(2, 9, 3), nn.BatchNorm2d(9)
            self.left, self.right = nn.Conv2d(9, 4, 1), nn.Conv2d(9, 5, 1)

        def forward(self, image):
            hidden = torch.relu(self.norm(self.first(image)))
            return self.left(hidden), self.right(hidden)

    model, images = sparse_(Fork(), keep=0.4), torch.randn(3, 2, 8, 8)
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    wanted, before = model(images), model.first.weight.detach().clone()
    order_units_(model, images)
    assert not torch.equal(model.first.weight, before)
    for found, each in zip(model(images), wanted, strict=True):
        torch.testing.assert_close(found, each)


def test_units_that_meet_the_input_or_a_grouped_convolution_stay():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, inputs):
            return self.two(inputs + self.one(inputs))

    grouped = sparse_(nn.Sequential(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 1, groups=2)))
    for model, example in ((sparse_(Sum()), torch.randn(2, 6)), (grouped, torch.randn(2, 3, 4, 4))):
        before = copy.deepcopy(model.state_dict())
        order_units_(model, example)
        assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_a_model_that_would_change_is_an_error_and_stays_as_it_is():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.calls = nn.Linear(6, 6), nn.Linear(6, 3), 0

        def forward(self, inputs):
            self.calls += 1
            return self.two(self.one(inputs)) * self.calls

    model = sparse_(Counts(), keep=0.5)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="nothing was changed"):
        order_units_(model, torch.randn(2, 6))
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_units_that_are_added_move_together():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
            self.deep = nn.Conv2d(6, 6, 3, padding=1, groups=6)
            self.inner, self.head = nn.Conv2d(6, 6, 1), nn.Conv2d(6, 3, 1)

        def forward(self, image):
            source = torch.relu(self.norm(self.stem(image)))
            return self.head(source + self.inner(self.deep(source)))

    model, images = sparse_(Block(), keep=0.4), torch.randn(3, 2, 8, 8)
    model.norm.running_mean.normal_()
    wanted, before = model(images), model.stem.weight.detach().clone()
    order_units_(model, images)
    assert not torch.equal(model.stem.weight, before)
    torch.testing.assert_close(model(images), wanted)
