"""Neurons are merged by saliency, twins without loss; bad input is refused before training."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Resized
from sparsegate_lab.methods import Neuron
from sparsegate_lab.methods.neuron import merged
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.train import count_biases, count_layers


def rebuilt(method, model):
    return method.prepare(model, progress=1.0)


def test_the_pair_that_costs_least_is_merged_first():
    # Squared distances 0-1: 1, 0-2: 9, 1-2: 4; powers 9, 100, 1.
    # Cheapest is 2 into 1 at 4 * 1, then 0 into 1 at 1 * 9.
    kept, outgoing = merged(
        torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[3.0, 10.0, 1.0]]), 2
    )
    assert kept.tolist() == [0, 1]
    assert outgoing.tolist() == [[3.0, 11.0]]


def test_a_merged_neuron_sends_more_and_is_dearer_to_remove():
    # First 1 into 0 (twins, free). Then 0 sends 2 and costs 4 * 1; 2 sends 1.5 and costs 2.25 * 1,
    # so 2 goes.
    kept, outgoing = merged(torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([[1.0, 1.0, 1.5]]), 1)
    assert kept.tolist() == [0]
    assert outgoing.tolist() == [[3.5]]


def test_the_power_is_the_mean_over_all_who_read():
    # powers: (1 + 49) / 2 = 25 and (25 + 9) / 2 = 17: the second neuron goes
    kept, _ = merged(torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0, 5.0], [7.0, 3.0]]), 1)
    assert kept.tolist() == [0]


@pytest.mark.parametrize("only", [("fc1.*",), ("fc2.*",), ("fc1.*", "fc2.*")])
@torch.no_grad()
def test_twins_are_merged_without_loss(only):
    torch.manual_seed(0)
    model = LeNet300()
    for layer in (model.fc1, model.fc2):  # the second half are copies of the first
        half = layer.out_features // 2
        layer.weight[half:], layer.bias[half:] = layer.weight[:half], layer.bias[:half]
    x = torch.randn(4, 1, 28, 28)
    wanted = model(x)
    torch.testing.assert_close(
        rebuilt(Neuron(keep=0.5, only=only), model)(x), wanted, atol=1e-5, rtol=1e-4
    )


def test_the_numbers_of_lenet_5_by_hand():
    # 315 of 500 neurons stay: 800 * 315 and 315 * 10
    model = rebuilt(Neuron(keep=0.63), LeNet5())
    layers = count_layers(model)
    assert [layer.kept for layer in layers] == [500, 25_000, 252_000, 3_150]
    assert [layer.total for layer in layers] == [500, 25_000, 400_000, 5_000]
    assert sum(layer.num_indices for layer in layers) == 0
    assert count_biases(model)[0] == 20 + 50 + 315 + 10


def test_a_layer_that_is_merged_and_reads_merged_ones_shrinks_on_both_sides():
    model = rebuilt(Neuron(keep=0.5, only=("fc1.*", "fc2.*")), LeNet300())
    assert [tuple(layer.weight.shape) for layer in model.children()] == [
        (150, 784),
        (50, 150),
        (10, 50),
    ]
    assert [layer.stands_for for layer in model.children()] == [(300, 784), (100, 300), (10, 100)]


def test_layers_that_neither_merge_nor_read_are_left_alone():
    model = rebuilt(Neuron(keep=0.5), LeNet300())
    assert isinstance(model.fc2, Resized)
    assert type(model.fc3) is nn.Linear


def test_one_neuron_stays_at_least():
    assert rebuilt(Neuron(keep=0.0001), LeNet300()).fc1.weight.shape == (1, 784)


def test_the_output_layer_is_refused_before_training():
    with pytest.raises(ValueError, match="fc3 cannot change: they meet output"):
        Neuron(only=("fc3.*",)).prepare(LeNet300())


@pytest.mark.parametrize("changes", [{"keep": 0.0}, {"keep": 50.0}, {"at": 2.0}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got"):
        Neuron(**changes)
