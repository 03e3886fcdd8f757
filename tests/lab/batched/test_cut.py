"""A cut leaves as many weights as are asked for, all of which an output can feel."""

import pytest
import torch

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.batched import Member
from sparsegate_lab.batched.cut import cut_
from sparsegate_lab.batched.stack import Stack
from sparsegate_lab.data import mnist
from sparsegate_lab.train import Run, empty_network

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
