"""One step in one pass: the kernel against plain torch, and gates of 16 bits."""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.optimizers.launch import (
    Update,
    alike,
    in_layout_of,
    step_all,
    step_gates_in_one_pass,
    step_in_one_pass,
)
from sparsegate.optimizers.step import GatedWeight, Rates, step_gated_
from sparsegate.price import Slope

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PACE = Rates(0.1, 0.9, 0.01, 2.0, 0.8, Slope(0.03, -0.02))
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def parts(shape, *, small=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    weight, velocity, gate_velocity = (torch.randn(shape, generator=generator) for _ in range(3))
    gate = torch.rand(shape, generator=generator)
    if small:
        gate, gate_velocity = gate.half(), gate_velocity.bfloat16()
    grad = torch.randn(shape, generator=generator)
    return GatedWeight(
        *(each.to(DEVICE) for each in (weight, velocity, gate, gate_velocity))
    ), grad.to(DEVICE)


def copied(moved):
    return GatedWeight(*(each.clone() for each in moved))


def by_kernel(moved, grad, pace):
    step_in_one_pass([Update(moved, grad)], [pace])


@needs_triton
@given(size=st.integers(0, 3000), seed=st.integers(0, 5))
def test_the_kernel_does_what_plain_torch_does(size, seed):
    mine, grad = parts((size,), seed=seed)
    other = copied(mine)
    step_gated_(mine, grad, PACE)
    by_kernel(other, grad, PACE)
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-6)


def several(*, small=False):
    """Weights of one block and of more, one of them empty, each with a price and a seed of its own."""
    rows = [
        Update(*parts(shape, small=small, seed=place))
        for place, shape in enumerate([(3, 5), (0,), (2000,), (1024,)])
    ]
    return rows, [
        PACE._replace(slope=Slope(0.01 * place, -0.02 * place), seed=7 + place)
        for place in range(4)
    ]


@needs_triton
@pytest.mark.parametrize("small", [False, True])
def test_one_launch_moves_several_weights_as_one_launch_for_each_does(small):
    (mine, paces), (other, _) = several(small=small), several(small=small)
    step_in_one_pass(mine, paces)
    for row, pace in zip(other, paces, strict=True):
        by_kernel(*row, pace)
    for one, two in zip(mine, other, strict=True):
        assert all(
            torch.equal(here, there) for here, there in zip(one.parts, two.parts, strict=True)
        )


def test_weights_that_the_kernel_cannot_take_move_beside_those_that_it_can():
    (mine, paces), (other, _) = several(), several()
    mine[2] = Update(
        GatedWeight(*(torch.cat([each, each[:1]])[:-1][::2] for each in mine[2].parts)),
        mine[2].grad[::2],
    )
    other[2] = Update(
        GatedWeight(*(each[::2].clone() for each in other[2].parts)), other[2].grad[::2].clone()
    )
    step_all(mine, paces)
    for (moved, grad), pace in zip(other, paces, strict=True):
        step_gated_(moved, grad, pace)
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one.parts, two.parts, rtol=1e-5, atol=1e-6)


@needs_triton
def test_the_kernel_steps_over_weights_in_channels_last():
    mine, grad = parts((4, 3, 2, 2))
    mine, grad = GatedWeight(*(each.to(memory_format=torch.channels_last) for each in mine)), grad
    other = copied(mine)
    assert not alike(mine.weight, grad)
    step_gated_(mine, grad, PACE)
    by_kernel(other, in_layout_of(other.weight, grad), PACE)
    torch.testing.assert_close(other.weight, mine.weight)
    torch.testing.assert_close(other.gate, mine.gate)


@needs_triton
@pytest.mark.parametrize("has_gradient", [True, False])
def test_gates_alone_move_as_those_that_move_with_weights(has_gradient):
    mine, grad = parts((1500,))
    gate, velocity = mine.gate.clone(), mine.gate_velocity.clone()
    to_gate = mine.weight * grad
    step_gated_(mine, grad if has_gradient else torch.zeros_like(grad), PACE)
    step_gates_in_one_pass(
        gate,
        velocity,
        to_gate if has_gradient else None,
        PACE.gate_lr,
        PACE.gate_momentum,
        PACE.slope,
    )
    torch.testing.assert_close(gate, mine.gate)
    torch.testing.assert_close(velocity, mine.gate_velocity)


def ways():
    return [step_gated_, pytest.param(by_kernel, marks=needs_triton)]


@pytest.mark.parametrize("way", ways())
def test_a_gate_of_16_bits_goes_on_average_where_a_gate_of_32_goes(way):
    shape = (40_000,)
    still = Rates(
        0.0, 0.0, 0.0, 1.0, 0.0, Slope(1e-5, 0.0)
    )  # far below half the spacing of 16-bit numbers near 0.9
    zero = torch.zeros(shape, device=DEVICE)
    gate = torch.full(shape, 0.9, device=DEVICE).half()
    moved = GatedWeight(zero.clone(), zero.clone(), gate, zero.bfloat16())
    before = gate.double().mean()
    for seed in range(10):
        way(moved, zero, still._replace(seed=seed))
    travelled = float(before - gate.double().mean())
    assert travelled == pytest.approx(1e-4, abs=4e-5)  # ten steps; the standard error is 1e-5
    assert len(gate.unique()) >= 2


@pytest.mark.parametrize("way", ways())
def test_gates_of_16_bits_stay_in_range_and_reach_its_ends(way):
    mine, grad = parts((2000,), small=True)
    way(mine, grad, PACE)
    assert mine.gate.dtype == torch.float16
    assert mine.gate_velocity.dtype == torch.bfloat16
    assert float(mine.gate.min()) == 0.0
    assert float(mine.gate.max()) == 1.0


@pytest.mark.parametrize("way", ways())
def test_a_gate_of_16_bits_stays_within_one_spacing_of_where_it_should_be(way):
    mine, grad = parts((2000,), small=True)
    wide = GatedWeight(*(each.float() for each in copied(mine)))
    way(mine, grad, PACE)
    step_gated_(wide, grad, PACE)
    assert float((mine.gate.float() - wide.gate).abs().max()) < 2**-10


@pytest.mark.parametrize("way", ways())
def test_rounding_by_chance_is_decided_by_the_seed_alone(way):
    found = []
    for state, seed in ((0, 1), (1, 1), (1, 2)):
        mine, grad = parts((2000,), small=True)
        torch.manual_seed(
            state
        )  # as processes with a copy of the model each have states of their own
        way(mine, grad, PACE._replace(seed=seed))
        found.append(mine.gate)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


@needs_triton
def test_the_kernel_rounds_as_plain_torch_does():
    mine, grad = parts((2000,), small=True)
    other = copied(mine)
    step_gated_(mine, grad, PACE._replace(seed=7))
    by_kernel(other, grad, PACE._replace(seed=7))
    assert (
        mine.gate == other.gate
    ).float().mean() > 0.99  # but for sums that are rounded otherwise


def test_memory_without_gaps_is_recognised():
    weight = torch.zeros(4, 3, 2, 2)
    assert alike(weight)
    assert alike(weight.to(memory_format=torch.channels_last))
    assert not alike(weight[:, 1:])
    assert not alike(weight, weight.to(memory_format=torch.channels_last))
    assert alike(
        torch.zeros(5, 1, 3, 3), torch.zeros(5, 1, 3, 3).to(memory_format=torch.channels_last)
    )
