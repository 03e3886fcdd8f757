"""Every moment of a run has a seed of its own, the same every time."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.train.seed import fold, generator, seed_

MOMENTS = st.lists(st.integers() | st.text(max_size=5), max_size=4).map(tuple)


@given(st.integers(), MOMENTS)
def test_a_seed_is_one_that_torch_takes_and_the_same_again(seed, moment):
    folded = fold(seed, *moment)
    assert 0 <= folded < 2**63
    assert folded == fold(seed, *moment)
    torch.Generator().manual_seed(folded)


@given(st.integers(), MOMENTS, st.integers(), MOMENTS)
def test_different_moments_have_different_seeds(seed, moment, other, later):
    assert (fold(seed, *moment) == fold(other, *later)) == ((seed, *moment) == (other, *later))


def test_moments_that_read_alike_have_different_seeds():
    alike = [
        fold(0, "step", 1, 2),
        fold(0, "step", 12),
        fold(0, "step", "1", 2),
        fold(0, "step1", 2),
        fold(0, "step"),
    ]
    assert len(set(alike)) == 5


def test_neighbouring_steps_draw_unrelated_numbers():
    draws = torch.stack(
        [torch.randn(1000, generator=generator(0, "step", step)) for step in range(10)]
    )
    off_diagonal = torch.corrcoef(draws) - torch.eye(10)
    assert (
        off_diagonal.abs().max() < 0.2
    )  # six standard deviations of the correlation of 1,000 pairs


def test_a_generator_draws_on_the_cpu_the_same_numbers_every_time():
    first, second = (torch.rand(5, generator=generator(3, "epoch", 1)) for _ in range(2))
    assert torch.equal(first, second)
    assert generator(3).device == torch.device("cpu")


def test_making_a_seed_draws_no_random_number():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    generator(1, "weights")
    assert torch.equal(torch.get_rng_state(), before)


def test_seeding_for_the_cpu_is_what_torch_does():
    torch.manual_seed(fold(3, "step"))
    wanted = torch.rand(5)
    seed_(fold(3, "step"), torch.device("cpu"))
    assert torch.equal(torch.rand(5), wanted)
