"""Weights that stay where they are move by one launch, and whoever does not is noticed."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.optimizers.cached_launch import CachedLaunch, cached_launch_of
from sparsegate.optimizers.launch import Update
from sparsegate.optimizers.step import GatedWeight, Rates, step_gated_
from sparsegate.price import Slope

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RATES = (0.1, 0.9, 0.01, 2.0, 0.8)
SHAPES = [(3, 5), (2000,), *[(place,) for place in range(1, 17)]]  # more than one launch takes
SLOPES = [Slope(0.01 * place, -0.02) for place in range(len(SHAPES))]
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def rows_and_state(*, small=False):
    draw = torch.Generator().manual_seed(0)
    rows, state = [], {}
    for shape in SHAPES:
        weight, velocity, gate_velocity, grad = (
            torch.randn(shape, generator=draw).to(DEVICE) for _ in range(4)
        )
        gate = torch.rand(shape, generator=draw).to(DEVICE)
        weight.grad = grad
        if small:
            gate, gate_velocity = gate.half(), gate_velocity.bfloat16()
        state[weight] = {"momentum_buffer": velocity, "gate_momentum_buffer": gate_velocity}
        rows.append(Update(GatedWeight(weight, velocity, gate, gate_velocity), grad))
    return rows, state


@needs_triton
def test_a_cached_launch_moves_every_weight_as_plain_torch_does():
    (mine, state), (other, _) = rows_and_state(), rows_and_state()
    cached = CachedLaunch(mine, state)
    cached.step(cached.grads(), SLOPES, RATES, seed=0)
    for (parts, grad), slope in zip(other, SLOPES, strict=True):
        step_gated_(parts, grad, Rates(*RATES, slope))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(tuple(one.parts), tuple(two.parts), rtol=1e-5, atol=1e-6)


@needs_triton
def test_gates_of_16_bits_in_a_cached_launch_stay_within_one_spacing_of_where_they_should_be():
    (mine, state), (other, _) = rows_and_state(small=True), rows_and_state(small=True)
    cached = CachedLaunch(mine, state)
    cached.step(cached.grads(), SLOPES, RATES, seed=5)
    for (parts, grad), slope, (moved, _) in zip(other, SLOPES, mine, strict=True):
        wide = GatedWeight(*(each.float() for each in parts))
        step_gated_(wide, grad, Rates(*RATES, slope))
        assert float((moved.gate.float() - wide.gate).abs().max()) < 2**-10
        torch.testing.assert_close(moved.weight, wide.weight, rtol=1e-5, atol=1e-6)


def lose_gradient(parts, state):
    parts.weight.grad = None


def turn_gradient(parts, state):
    parts.weight.grad = parts.weight.grad.T.contiguous().T


def unalign_gradient(parts, state):
    parts.weight.grad = torch.zeros(16, device=DEVICE)[1:].as_strided(
        parts.weight.shape, parts.weight.stride()
    )


def move_weight(parts, state):
    parts.weight.data = parts.weight.data.clone()


def move_gate(parts, state):
    parts.gate.data = parts.gate.data.clone()


def replace_speed(parts, state):
    state["momentum_buffer"] = parts.velocity.clone()


def replace_gate_velocity(parts, state):
    state["gate_momentum_buffer"] = parts.gate_velocity.clone()


@pytest.mark.parametrize(
    "change",
    [
        lose_gradient,
        turn_gradient,
        unalign_gradient,
        move_weight,
        move_gate,
        replace_speed,
        replace_gate_velocity,
    ],
)
def test_what_is_not_where_it_was_is_noticed(change):
    rows, state = rows_and_state()
    cached = CachedLaunch(rows, state)
    assert all(one is row.grad for one, row in zip(cached.grads(), rows, strict=True))
    change(rows[0].parts, state[rows[0].parts.weight])
    assert cached.grads() is None


def test_a_gradient_elsewhere_is_taken_from_there():
    rows, state = rows_and_state()
    cached = CachedLaunch(rows, state)
    rows[1].parts.weight.grad = rows[1].grad.clone()
    assert cached.grads()[1] is rows[1].parts.weight.grad


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_steps_on_a_gpu_are_those_of_plain_torch_also_after_a_state_was_loaded():
    ends = []
    for fast in (True, False):
        torch.manual_seed(0)
        model = sg.gate(nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 4))).to(DEVICE)
        optimizer = sg.GatedSGD(model, lr=0.1, gate_lr=1.0)
        for number in range(6):
            model(torch.ones(2, 8, device=DEVICE)).square().sum().backward()
            if not fast:
                optimizer._cached = None
            optimizer.step()
            optimizer.zero_grad()
            if number == 3:
                optimizer.load_state_dict(optimizer.state_dict())
        ends.append(model.state_dict())
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


def test_another_state_or_list_of_parameters_is_noticed():
    rows, state = rows_and_state()
    params = [row.parts.weight for row in rows]
    cached = CachedLaunch(rows, state, params)
    assert cached.comes_from(state, params)
    assert not cached.comes_from(dict(state), params)
    assert not cached.comes_from(state, list(params))


def test_what_lies_on_a_cpu_makes_no_cached():
    rows, state = rows_and_state()
    assert (cached_launch_of(rows, state, shifted=False) is None) == (DEVICE == "cpu")
