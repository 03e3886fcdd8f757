"""A gated weight is the weight times its mask, with a straight-through gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from sparsegate.gates import Constant, Gate, Sample, Threshold, gate, gates
from sparsegate.gates.gate import masked

OPEN, CLOSED = 0.9, 0.2


def toy() -> nn.Linear:
    """Weights [[1, -2], [-3, 4]]; the gates of -2 and -3 are closed."""
    layer = nn.Linear(2, 2)
    layer.load_state_dict(
        {"weight": torch.tensor([[1.0, -2.0], [-3.0, 4.0]]), "bias": torch.tensor([0.5, -0.5])}
    )
    gate(layer)
    gates(layer)["weight"].gate.data = torch.tensor([[OPEN, CLOSED], [CLOSED, OPEN]])
    return layer


def original(layer: nn.Module) -> nn.Parameter:
    return layer.parametrizations.weight.original


def test_a_gated_layer_computes_with_the_masked_weight():
    # [1*10 + 0*100 + 0.5, 0*10 + 4*100 - 0.5]
    assert toy()(torch.tensor([[10.0, 100.0]])).tolist() == [[10.5, 399.5]]


@given(st.integers(0, 2**16))
def test_the_output_is_that_of_weight_times_mask(seed):
    torch.manual_seed(seed)
    layer, inputs, gate_values = nn.Linear(4, 3), torch.randn(2, 4), torch.rand(3, 4)
    expected = F.linear(inputs, layer.weight * (gate_values > 0.5), layer.bias)
    gates(gate(layer))["weight"].gate.data = gate_values
    assert torch.equal(layer(inputs), expected)


def test_the_gradient_to_a_gate_is_that_of_the_masked_weight_times_the_weight_also_if_closed():
    layer = toy()
    layer(torch.tensor([[10.0, 100.0]])).sum().backward()
    # dL/dmasked is [[10, 100], [10, 100]]
    assert gates(layer)["weight"].gate.grad.tolist() == [[10.0, -200.0], [-30.0, 400.0]]


def test_the_gradient_to_the_weight_is_masked():
    layer = toy()
    layer(torch.tensor([[10.0, 100.0]])).sum().backward()
    assert original(layer).grad.tolist() == [[10.0, 0.0], [0.0, 100.0]]


def test_the_gradient_does_not_depend_on_the_gate_outside_the_mask():
    weight, value = torch.tensor([3.0, 3.0, 3.0]), torch.tensor([0.0, 0.6, 1.0], requires_grad=True)
    masked(weight, value, torch.tensor([0.0, 1.0, 1.0])).sum().backward()
    assert value.grad.tolist() == [3.0, 3.0, 3.0]


def test_the_gradient_to_an_open_weight_is_the_true_one():
    weight = torch.randn(3, 2, dtype=torch.double, requires_grad=True)
    score = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert torch.autograd.gradcheck(lambda w: masked(w, torch.ones(3, 2), score), (weight,))


def test_a_frozen_weight_still_trains_its_gates():
    layer = toy()
    original(layer).requires_grad_(False)
    layer(torch.ones(1, 2)).sum().backward()
    assert original(layer).grad is None
    assert gates(layer)["weight"].gate.grad.abs().min() > 0


def test_removed_weights_are_plus_zero():
    assert not torch.signbit(toy().weight[0, 1])


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_an_infinite_weight_behind_a_closed_gate_does_no_harm(bad):
    layer = toy()
    original(layer).data[0, 1] = bad
    inputs = torch.tensor([[10.0, 100.0]], requires_grad=True)
    output = layer(inputs)
    output.sum().backward()
    assert output.tolist() == [[10.5, 399.5]]
    assert inputs.grad.tolist() == [[1.0, 4.0]]
    assert original(layer).grad.tolist() == [[10.0, 0.0], [0.0, 100.0]]
    assert gates(layer)["weight"].gate.grad.flatten()[[0, 2, 3]].tolist() == [10.0, -30.0, 400.0]


def test_in_training_the_mask_is_drawn_and_in_eval_it_is_the_threshold_s():
    each = Gate(torch.full((1000,), 0.6), Sample())
    assert 0 < each.mask().float().mean() < 1
    assert each.eval().mask().all()


def test_in_eval_the_threshold_itself_is_closed_too():
    assert not Gate(torch.full((3,), 0.5), Sample()).eval().mask().any()


def test_an_assigned_weight_is_stored_as_it_is():
    layer = toy()
    layer.weight = torch.full((2, 2), 7.0)
    assert original(layer).tolist() == [[7.0, 7.0], [7.0, 7.0]]
    assert layer.weight.tolist() == [[7.0, 0.0], [0.0, 7.0]]


def test_vmap_gives_the_gradient_of_each_example():
    layer, inputs = toy(), torch.randn(5, 2)
    params = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(params, example):
        return functional_call(layer, params, (example[None],)).square().sum()

    together = vmap(grad(loss), in_dims=(None, 0))(params, inputs)
    for number, example in enumerate(inputs):
        alone = grad(loss)(params, example)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][number], value)


def test_vmap_runs_several_sets_of_gates_over_one_weight():
    weight, many = torch.tensor([1.0, -2.0]), torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.9, 0.9]])
    outputs = vmap(lambda value: masked(weight, value, value))(many)
    assert outputs.tolist() == [[1.0, 0.0], [0.0, -2.0], [1.0, -2.0]]


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.double])
def test_a_model_s_change_of_dtype_leaves_the_gates_in_float32(dtype):
    layer = gate(nn.Linear(2, 2), start=Constant(0.123456789)).to(dtype)
    each = gates(layer)["weight"].gate
    assert each.dtype == torch.float32
    assert (each == torch.tensor(0.123456789)).all()
    layer(torch.ones(1, 2, dtype=dtype)).sum().backward()
    assert layer.weight.dtype == original(layer).grad.dtype == dtype
    assert each.grad.dtype == torch.float32


@pytest.mark.parametrize("convert", ["half", "bfloat16", "double"])
def test_the_short_names_of_dtypes_leave_the_gates_in_float32_too(convert):
    layer = getattr(toy(), convert)()
    assert gates(layer)["weight"].gate.dtype == torch.float32
    assert original(layer).dtype != torch.float32


def test_a_gradient_too_small_for_16_bits_still_reaches_the_gate():
    weight, value = torch.tensor([1e-4], dtype=torch.half), torch.tensor([0.4], requires_grad=True)
    (masked(weight, value, value.detach()) * 1e-4).sum().backward()
    assert value.grad.item() == pytest.approx(1e-8, rel=0.01)  # the smallest half is 6e-8


def test_a_change_of_memory_format_reaches_the_gates():
    layer = gate(nn.Conv2d(2, 3, 3)).to(memory_format=torch.channels_last)
    assert gates(layer)["weight"].gate.is_contiguous(memory_format=torch.channels_last)
    assert layer(torch.randn(1, 2, 5, 5)).shape == (1, 3, 3, 3)


def test_a_move_to_another_device_reaches_the_gates_whatever_the_dtype():
    each = gates(gate(nn.Linear(2, 2)).to("meta", torch.half))["weight"].gate
    assert (each.device.type, each.dtype) == ("meta", torch.float32)


def test_printing_a_gate_shows_its_draw_and_shape():
    assert "Threshold(), shape=(2, 3)" in repr(Gate(torch.ones(2, 3), Threshold()))


def test_a_convolution_of_one_channel_stays_in_channels_last():
    layer = gate(nn.Conv2d(1, 3, 3)).to(memory_format=torch.channels_last)
    assert layer.weight.stride() == original(layer).stride()
    layer(torch.randn(2, 1, 5, 5)).sum().backward()
    assert original(layer).grad.stride() == original(layer).stride()
