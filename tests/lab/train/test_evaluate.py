"""Accuracy and counts of toys, by hand."""

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from sparsegate.export import Normalise
from sparsegate_lab.data import Split
from sparsegate_lab.layers import StandIn
from sparsegate_lab.record import SIZE_EDGES
from sparsegate_lab.train import accuracy, count_biases, count_layers, count_sizes

PLAIN = Normalise(0.0, 1.0)


def pixels(values, labels):
    return Split(torch.tensor(values, dtype=torch.uint8).reshape(-1, 1, 1, 3), torch.tensor(labels))


def test_three_of_four_images_are_labelled_by_their_brightest_pixel():
    split = pixels([[9, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]], [0, 1, 2, 1])
    assert accuracy(nn.Flatten(), split, PLAIN, Accelerator()) == 75.0


def test_images_beyond_the_first_batch_are_counted():
    split = pixels([[9, 0, 0]] * 2500, [0] * 1500 + [1] * 1000)
    assert accuracy(nn.Flatten(), split, PLAIN, Accelerator()) == 60.0


def test_images_are_normalised_first():
    upside_down = Normalise(0.0, -1.0)
    split = pixels([[9, 1, 2]], [1])
    assert accuracy(nn.Flatten(), split, upside_down, Accelerator()) == 100.0


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_evaluated_in_eval_and_left_as_it_was(training):
    # dropout of everything: in train all logits are zero and the first class wins
    model = nn.Sequential(nn.Flatten(), nn.Dropout(1.0)).train(training)
    assert accuracy(model, pixels([[0, 0, 9]], [2]), PLAIN, Accelerator()) == 100.0
    assert model.training is training
    assert model[1].training is training


def test_accuracy_leaves_no_gradient():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 3))
    accuracy(model, pixels([[1, 2, 3]], [0]), PLAIN, Accelerator())
    assert all(each.grad is None for each in model.parameters())


def toy():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0, -2.0], [0.0, -0.0, 1e-30]]))
        model[0].bias.copy_(torch.tensor([0.0, 3.0]))
        model[2].weight.zero_()
    return model


def test_layers_are_counted_with_their_zeros():
    first, last = count_layers(toy())
    assert (first.name, first.shape, first.total, first.kept) == ("0.weight", (2, 3), 6, 3)
    assert (last.name, last.shape, last.total, last.kept) == ("2.weight", (2, 2), 4, 0)


def test_norms_and_biases_are_counted_apart():
    # two biases, one of them zero; two norm weights of one; two norm biases of zero
    assert count_biases(toy()) == (6, 3)


def test_every_parameter_is_counted_once():
    model = toy()
    counted = sum(layer.total for layer in count_layers(model)) + count_biases(model)[0]
    assert counted == sum(each.numel() for each in model.parameters())


def test_tied_weights_are_counted_once():
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert [layer.name for layer in count_layers(tied)] == ["0.weight"]


class Toy(StandIn):
    """Two vectors and a matrix that replace a 3 by 4 weight, with seven indices."""

    num_indices = 7

    def __init__(self):
        super().__init__()
        self.stands_for = (3, 4)
        self.vectors = nn.ParameterList([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(3))])
        self.matrix = nn.Parameter(torch.zeros(2, 2))
        self.bias = nn.Parameter(torch.zeros(3))
        self.register_buffer("order", torch.arange(4), persistent=False)


def test_all_numbers_of_a_stand_in_are_weights_zeros_and_vectors_too_and_its_bias_is_not():
    model = nn.Sequential(nn.Linear(2, 4), Toy(), nn.Linear(3, 2))
    before, layer, after = count_layers(model)
    assert (layer.name, layer.shape, layer.total, layer.kept) == ("1.weight", (3, 4), 12, 2 + 3 + 4)
    assert layer.num_indices == 7
    assert (before.name, before.total, after.name, after.total) == ("0.weight", 8, "2.weight", 6)
    assert count_biases(model)[0] == 4 + 3 + 2


def test_sizes_of_kept_weights_are_counted_in_bins_without_biases_and_zeros():
    model = nn.Linear(4, 1)
    model.weight.data = torch.tensor([[0.0, -0.5, 0.55, 100.0]])
    counts = count_sizes(model)
    assert len(counts) == len(SIZE_EDGES) + 1
    half = SIZE_EDGES.index(0.5)
    assert {place: count for place, count in enumerate(counts) if count} == {
        half + 1: 2,
        len(SIZE_EDGES): 1,
    }
