"""Masks are binary, and keep and variance say what to expect of them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.gates import Draw, Sample, Threshold

GATES = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12).map(torch.tensor)
NUM_DRAWS = 40_000


def drawn(gate: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return Sample().mask(gate.expand(NUM_DRAWS, -1)).double()


def test_the_threshold_itself_is_closed():
    half = torch.tensor(0.5)
    gate = torch.stack(
        [torch.nextafter(half, torch.tensor(0.0)), half, torch.nextafter(half, torch.tensor(1.0))]
    )
    assert Threshold().mask(gate).tolist() == [False, False, True]


@given(GATES)
def test_threshold_uses_no_random_number(gate):
    before = torch.random.get_rng_state()
    assert torch.equal(Threshold().mask(gate), Threshold().mask(gate))
    assert torch.equal(torch.random.get_rng_state(), before)


@given(GATES)
def test_threshold_keeps_what_its_mask_keeps_and_does_not_vary(gate):
    assert Threshold().keep(gate).item() == pytest.approx(
        Threshold().mask(gate).double().mean().item()
    )
    assert Threshold().variance(gate).item() == 0


def test_a_gate_of_zero_never_opens_even_if_the_random_number_is_zero():
    size = 2**20  # torch.rand gives multiples of 2^-24, so one such tensor in sixteen holds a zero
    for seed in range(300):
        if torch.rand(size, generator=torch.Generator().manual_seed(seed)).min() == 0:
            break
    else:
        pytest.fail("no seed gave a zero")
    torch.manual_seed(seed)
    assert not Sample().mask(torch.zeros(size)).any()


def test_a_gate_of_one_never_closes():
    torch.manual_seed(0)
    assert Sample().mask(torch.ones(2**20)).all()


def test_a_sampled_gate_opens_with_itself_as_probability():
    gate = torch.tensor([0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
    error = 5 * (gate * (1 - gate) / NUM_DRAWS).sqrt()
    assert ((drawn(gate).mean(0) - gate).abs() <= error).all()


def test_sample_keep_and_variance_are_those_of_many_draws():
    gate = torch.tensor([0.05, 0.3, 0.5, 0.9, 1.0])
    masks = drawn(gate)
    assert masks.mean().item() == pytest.approx(
        Sample().keep(gate).item(), abs=5 * 0.5 / math.sqrt(masks.numel())
    )
    assert masks.var(0).mean().item() == pytest.approx(Sample().variance(gate).item(), abs=0.005)


def test_elements_are_drawn_independently():
    masks = drawn(torch.full((2,), 0.5))
    assert abs(torch.corrcoef(masks.T)[0, 1].item()) < 5 / math.sqrt(NUM_DRAWS)


@given(GATES)
def test_the_variance_of_a_draw_is_at_most_a_quarter(gate):
    assert 0 <= Sample().variance(gate).item() <= 0.25


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_draws_agree_on_binary_gates(opens):
    gate = torch.tensor(opens).float()
    assert Sample().mask(gate).tolist() == Threshold().mask(gate).tolist() == opens
    assert Sample().keep(gate).item() == Threshold().keep(gate).item()
    assert Sample().variance(gate).item() == 0


def test_sample_follows_the_global_seed():
    gate = torch.full((64,), 0.5)
    first, second = (torch.manual_seed(7), Sample().mask(gate))[1], Sample().mask(gate)
    torch.manual_seed(7)
    assert torch.equal(Sample().mask(gate), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("draw", [Threshold(), Sample()])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 1, 2)])
def test_a_mask_is_boolean_and_shaped_like_its_gate(draw: Draw, shape):
    mask = draw.mask(torch.full(shape, 0.7))
    assert mask.dtype == torch.bool
    assert mask.shape == shape


def test_draws_are_equal_by_value_so_that_runs_can_be_compared():
    assert Threshold() == Threshold()
    assert Sample() == Sample()
    assert Sample() != Threshold()


@pytest.mark.parametrize("lowered", [-0.4, 0.0, 0.13, 0.6])
def test_lowered_thresholded_gates_are_counted_as_the_general_form_counts_them(lowered):
    gate, by = torch.rand(40, 50, generator=torch.Generator().manual_seed(0)), torch.tensor(lowered)
    kept = Threshold().num_kept(gate, lowered=by)
    assert float(kept) == round(float(Draw.num_kept(Threshold(), gate, lowered=by)))
