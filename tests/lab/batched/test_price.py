"""A member that may keep so many weights is steered there."""

import dataclasses

import pytest
import torch

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.batched import ManyLoop, Member
from sparsegate_lab.batched.price import cut_, steered, wanted
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.batched.stack import Stack
from sparsegate_lab.data import load_data, mnist
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run, empty_network

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


EXAMPLE = torch.zeros(1, 1, 28, 28)


def stack_of(*most: int) -> Stack:
    """Members of LeNet-300-100 whose gates are scattered: one in six is open."""
    stack = Stack(
        [Member(Run(model="lenet300", seed=9), most=each) for each in most],
        mnist(),
        torch.device("cpu"),
    )
    torch.manual_seed(0)
    for each in stack.gated.values():
        each.gate.uniform_(0.0, 0.6)
    return stack


def network(stack: Stack, place: int):
    model = empty_network(stack.members[place].run)
    model.load_state_dict({name: each[place] for name, each in stack.finished().items()})
    return model


def kept(stack: Stack, place: int) -> int:
    return sum(
        int(torch.count_nonzero(each[place]))
        for name, each in stack.finished().items()
        if "weight" in name
    )


@pytest.mark.parametrize("most", [30_000, 3_000])
def test_so_many_are_left_and_none_of_them_is_dead(most):
    stack = stack_of(most)
    cut_(stack, 0, EXAMPLE)
    assert 0.995 * most <= kept(stack, 0) <= most
    assert remove_dead_paths(network(stack, 0), EXAMPLE).num_weights == 0


def test_other_members_are_not_touched():
    stack = stack_of(1000, 2000)
    before = {name: each.gate[1].clone() for name, each in stack.gated.items()}
    cut_(stack, 0, EXAMPLE)
    assert all(torch.equal(each.gate[1], before[name]) for name, each in stack.gated.items())


def test_a_member_with_fewer_weights_only_loses_its_dead_ones():
    stack = stack_of(10**6)
    torch.manual_seed(1)
    images = torch.rand(4, 1, 28, 28)
    before, wanted = kept(stack, 0), network(stack, 0)(images)
    cut_(stack, 0, EXAMPLE)
    assert 0 < kept(stack, 0) < before
    torch.testing.assert_close(network(stack, 0)(images), wanted)


def test_the_lowest_gates_close_first():
    stack = stack_of(500)
    for each in stack.gated.values():
        each.gate.clamp_(max=0.4)
    stack.params["fc3.weight"].gate.fill_(0.9)
    stack.params["fc2.weight"].gate[:, :, :3] = 0.8
    stack.params["fc1.weight"].gate[:, :3, :10] = 0.7
    cut_(stack, 0, EXAMPLE)  # 1000 + 300 + 30 are open
    left = {name: int((each.gate > 0.5).sum()) for name, each in stack.gated.items()}
    assert left["fc3.weight"] + left["fc2.weight"] + left["fc1.weight"] <= 500
    assert left["fc1.weight"] < 30
