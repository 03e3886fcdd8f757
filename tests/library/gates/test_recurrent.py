"""A gated recurrent layer computes with its masked weights, through every way torch reads them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from sparsegate.gates import Constant, Sample, Select, finish, gate, gates

recurrent = pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
INPUTS = torch.linspace(-1, 1, 24).reshape(3, 2, 4)


class Halved(nn.Module):
    """Another parametrization."""

    def forward(self, bias):
        return bias / 2


@recurrent
def test_a_gated_layer_computes_as_one_with_the_masked_weights(kind):
    torch.manual_seed(0)
    plain = kind(4, 3, num_layers=2, bidirectional=True)
    gated = gate(copy.deepcopy(plain))
    with torch.no_grad():
        for name, each in gates(gated).items():
            each.gate.uniform_()
            plain.get_parameter(name).mul_(each.gate > 0.5)
    assert torch.equal(gated(INPUTS)[0], plain(INPUTS)[0])


@recurrent
def test_closed_gates_leave_only_the_biases(kind):
    layer = gate(kind(4, 3), start=Constant(0.0))
    assert torch.equal(layer(INPUTS)[0], layer(INPUTS + 1)[0])


@recurrent
def test_the_output_follows_a_gate_that_changes(kind):
    layer = gate(kind(4, 3))
    before = layer(INPUTS)[0]
    gates(layer)["weight_ih_l0"].gate.data.zero_()
    assert not torch.equal(layer(INPUTS)[0], before)


def test_a_sampled_layer_draws_at_every_pass():
    layer = gate(nn.LSTM(4, 3), draw=Sample(), start=Constant(0.5))
    assert not torch.equal(layer(INPUTS)[0], layer(INPUTS)[0])


def test_a_layer_with_only_some_weights_gated_reads_the_others_as_they_are():
    plain = nn.LSTM(4, 3)
    gated = gate(copy.deepcopy(plain), select=Select(names=("weight_hh*",)))
    assert list(gates(gated)) == ["weight_hh_l0"]
    assert torch.equal(gated(INPUTS)[0], plain(INPUTS)[0])
    gated.weight_ih_l0.data.zero_()
    assert not torch.equal(gated(INPUTS)[0], plain(INPUTS)[0])


def test_a_change_of_dtype_and_flatten_parameters_pass():
    layer = gate(nn.LSTM(4, 3)).double()
    layer.flatten_parameters()
    assert layer(INPUTS.double())[0].dtype == torch.double
    gates(layer)["weight_ih_l0"].gate.data.zero_()
    assert not layer.weight_ih_l0.any()


@recurrent
def test_a_finished_layer_reads_its_parameters_directly_and_trains_on(kind):
    layer = finish(gate(kind(4, 3)))
    assert all(
        layer.get_parameter(name) is weight
        for name, weight in zip(layer._flat_weights_names, layer._flat_weights, strict=True)
    )
    before = layer(INPUTS)[0]
    layer.weight_ih_l0.data.zero_()
    assert not torch.equal(layer(INPUTS)[0], before)
    assert layer.double()(INPUTS.double())[0].dtype == torch.double


def test_gating_one_layer_leaves_others_of_its_type_alone():
    other = nn.LSTM(4, 3)
    gate(nn.LSTM(4, 3))
    assert type(other) is nn.LSTM
    assert "_flat_weights" in vars(other)
    assert "_flat_weights" not in vars(nn.LSTM)


def test_a_layer_whose_bias_has_a_parametrization_works_gated_and_finished():
    layer = nn.LSTM(4, 3)
    gate(layer)
    parametrize.register_parametrization(layer, "bias_ih_l0", Halved())
    before = layer(INPUTS)[0]
    finish(layer)
    assert torch.equal(layer(INPUTS)[0], before)
    layer.parametrizations.bias_ih_l0.original.data.add_(1)
    assert not torch.equal(layer(INPUTS)[0], before)


def test_other_layers_are_left_alone():
    layer = gate(nn.Linear(4, 3))
    assert not hasattr(layer, "_flat_weights")
    assert not hasattr(finish(layer), "_flat_weights")


@recurrent
def test_one_pass_draws_each_mask_at_most_twice(kind):
    layer, drawn = gate(kind(4, 3), draw=Sample()), []
    for name, each in gates(layer).items():
        each.register_forward_hook(lambda *_, name=name: drawn.append(name))
    layer(INPUTS)
    # Once for the pass and once for torch's look at the dtype of its input.
    assert all(drawn.count(name) <= 2 for name in gates(layer)), drawn
