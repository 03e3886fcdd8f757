"""A member that may keep so many weights is steered there."""

import dataclasses

import pytest
import torch

from sparsegate_lab.batched import ManyLoop, Member
from sparsegate_lab.batched.price import steered, wanted
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run

MEMBER = Member(Run(epochs=100, method=LearnedGates(ramp=0.5, freeze=0.75)), most=1000)


def on_the_path(progress, times=1.0):
    """The last two epochs' numbers of a member that keeps so many times what it is to keep."""
    return [round(times * wanted(MEMBER, progress - 0.01)), round(times * wanted(MEMBER, progress))]


@pytest.mark.parametrize("progress", [0.1, 0.18, 0.75, 0.9])
def test_the_price_stands_before_the_gates_tell_anything_and_after_they_have_stopped(progress):
    assert steered(1.7, MEMBER, [100_000], progress) == 1.7


def test_without_a_number_to_keep_the_price_stands():
    assert steered(1.0, dataclasses.replace(MEMBER, most=None), [100_000], 0.5) == 1.0


@pytest.mark.parametrize("progress", [0.2, 0.4, 0.6])
def test_who_is_on_the_path_keeps_the_price_whatever_the_ramp_does(progress):
    factor = steered(1.0, MEMBER, on_the_path(progress), progress)
    before, after = (min(1.0, moment / 0.5) for moment in (progress, progress + 0.01))
    assert factor * after == pytest.approx(before, rel=2e-3)


def test_an_error_that_shrinks_by_itself_is_answered_less():
    grows, shrinks = [2000, 2040], [2080, 2040]
    assert steered(1.0, MEMBER, grows, 0.7) > steered(1.0, MEMBER, shrinks, 0.7)


def test_no_epoch_changes_the_price_by_much():
    jump = steered(1.0, MEMBER, [430_000, 5000], 0.6) / steered(1.0, MEMBER, on_the_path(0.6), 0.6)
    assert 1.0 < jump < 1.5


def test_slow_gates_arrive_on_the_number_without_a_swing():
    # They answer within a tenth of the time, by a power other than the one that is reckoned with;
    # less as it goes on.
    factor, kept, prices = 1.0, [6000.0], []
    for epoch in range(18, 75):
        factor = steered(factor, MEMBER, [round(number) for number in kept], epoch / 100)
        prices.append(factor * min(1.0, (epoch + 1) / 50))
        settled = 1500 * prices[-1] ** -0.5 * (1 - 0.003 * (epoch - 18))
        kept.append(kept[-1] * (settled / kept[-1]) ** 0.13)
    assert abs(kept[-1] / 1000 - 1) < 0.03
    assert min(kept) > 970
    assert max(prices) < 1.2 * prices[-1]


def test_the_factor_has_limits():
    factor = 1.0
    for _ in range(1000):
        factor = steered(factor, MEMBER, [10**9], 0.5)
    assert factor == 10.0


def test_the_factor_is_on_the_price_alone():
    plain, twice = (knob_table([MEMBER], 60, 4, factors) for factors in (None, [2.0]))
    assert torch.equal(twice[:, 2], 2 * plain[:, 2])
    assert torch.equal(twice[:, [0, 1, 3]], plain[:, [0, 1, 3]])


def test_a_member_ends_with_the_number_it_may_keep(small):
    run = small(epochs=8, method=LearnedGates(gate_lr=100.0, ramp=0.5, freeze=0.75))
    loop = ManyLoop([Member(run, most=5000), Member(run)], load_data(run.data), torch.device("cpu"))
    loop.train()
    assert loop.stack.factor[0] > 1.5
    assert loop.stack.factor[1] == 1.0
    assert 0.99 * 5000 <= loop.epochs[0][-1].kept <= 5000
    assert loop.epochs[0][-1].kept < loop.epochs[1][-1].kept


def test_a_member_whose_gates_stop_in_the_last_epoch_is_cut_all_the_same(small):
    run = small(epochs=1, method=LearnedGates(freeze=0.9))
    loop = ManyLoop([Member(run, most=3000)], load_data(run.data), torch.device("cpu"))
    loop.train()
    left = [each for name, each in loop.stack.finished().items() if name.endswith("weight")]
    assert 0.99 * 3000 <= sum(int(torch.count_nonzero(each)) for each in left) <= 3000
