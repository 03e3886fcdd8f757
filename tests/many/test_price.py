"""A member that may keep so many weights is steered there."""

import dataclasses

import pytest
import torch

from sparsegate.data import load_data
from sparsegate.many import ManyLoop, Member
from sparsegate.many.knobs import knob_table
from sparsegate.many.price import steered
from sparsegate.methods import LearnedGates
from sparsegate.train import Run

MEMBER = Member(Run(epochs=100, method=LearnedGates(ramp=0.5, freeze=0.75)), most=1000)


@pytest.mark.parametrize("progress", [0.1, 0.29, 0.75, 0.9])
def test_the_price_stands_before_the_gates_tell_anything_and_after_they_have_stopped(progress):
    assert steered(1.7, MEMBER, 100_000, progress) == 1.7


def test_without_a_number_to_keep_the_price_stands():
    assert steered(1.0, dataclasses.replace(MEMBER, most=None), 100_000, 0.5) == 1.0


def test_who_is_on_the_way_keeps_the_price():
    # 1.03 times as many as wanted, of which 68 % are left of what the price of this moment, 0.6 of the full, leaves
    assert steered(1.0, MEMBER, round(1030 / 0.68 / 0.6**0.66), 0.3) == pytest.approx(1.0, abs=1e-3)


def test_the_factor_has_limits():
    factor = 1.0
    for _ in range(1000):
        factor = steered(factor, MEMBER, 10**9, 0.5)
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
