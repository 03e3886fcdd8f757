"""Weights change places: the least useful leave, others come, and their number stays."""

import pytest
import torch

from sparsegate.data import load_data
from sparsegate.many import Late, ManyLoop, Member
from sparsegate.many.shrinking import Link
from sparsegate.many.swap import Slopes, swap_, swap_share
from sparsegate.methods import LearnedGates

CPU = torch.device("cpu")


@pytest.fixture
def loop(small):
    run = small(epochs=2, method=LearnedGates(freeze=0.5))
    return ManyLoop([Member(run, most=400), Member(run, most=400)], load_data(run.data), CPU)


def slopes(stack, name, place, total, square):
    """Gradients that are zero but at one place of one weight, of every member."""
    found = {each: Slopes(torch.zeros_like(p.weight), torch.zeros_like(p.weight)) for each, p in stack.active.items()}
    found[name].total[(slice(None), *place)] = total
    found[name].square[(slice(None), *place)] = square
    return found


def open_only(stack, **places):
    """Closes all gates but those at these places."""
    for name, each in stack.gated.items():
        each.gate.zero_()
        for place in places.get(name.split(".")[0], ()):
            each.gate[(slice(None), *place)] = 1.0


def test_what_the_loss_does_not_feel_leaves_for_what_it_asks_for(loop):
    open_only(loop.stack, fc2=[(0, 0), (0, 1)])
    fc2 = loop.stack.params["fc2.weight"]
    seen = slopes(loop.stack, "fc2.weight", (0, 1), 0.0, 1.0)  # the loss feels this open one
    seen["fc2.weight"].total[:, 3, 4] = -2.0
    seen["fc2.weight"].total[:, 5, 6] = 1.0
    swap_(loop.stack, seen, [], [0.5, 0.0])
    assert fc2.gate[0].nonzero().tolist() != fc2.gate[1].nonzero().tolist()
    assert fc2.gate[1].nonzero().tolist() == [[0, 0], [0, 1]]  # a member that swaps nothing stays as it is
    # One left; beside the one that came for it those came that the member had too few, as far as the loss asked.
    assert fc2.gate[0].nonzero().tolist() == [[0, 1], [3, 4], [5, 6]]
    assert fc2.weight[0, 3, 4] == 0
    assert fc2.weight[0, 0, 0] == 0


def test_nothing_comes_that_reads_a_constant(loop):
    open_only(loop.stack, fc1=[(4, 0)], fc2=[(0, 4)])
    seen = slopes(loop.stack, "fc2.weight", (3, 5), 9.0, 9.0)  # unit 5 of fc1 has no open weight
    seen["fc2.weight"].total[:, 3, 4] = 1.0
    swap_(loop.stack, seen, [Link("fc1", ("fc2",), 500)], [0.5, 0.5])
    assert loop.stack.params["fc2.weight"].gate[0, 3].nonzero().tolist() == [[4]]


def test_what_has_come_begins_at_rest_with_the_usual_size_of_gradients(small):
    run = small(epochs=2, method=LearnedGates(freeze=0.5))
    member = Member(run, most=2, late=Late(lr=0.01, adapt=True))
    stack = ManyLoop([member], load_data(run.data), CPU).stack
    open_only(stack, fc2=[(0, 0), (0, 1)])
    fc2 = stack.params["fc2.weight"]
    fc2.square[0, 0, 0], fc2.square[0, 0, 1], fc2.speed[0, 3, 4] = 1.0, 3.0, 7.0
    swap_(stack, slopes(stack, "fc2.weight", (3, 4), 1.0, 1.0), [], [0.5])
    assert (fc2.square[0, 3, 4], fc2.speed[0, 3, 4], fc2.gate[0, 3, 4]) == (2.0, 0.0, 1.0)


def test_a_member_ends_with_its_number_after_many_changes_of_place(small):
    run = small(epochs=6, method=LearnedGates(freeze=0.3, gate_lr=3.0))
    members = [Member(run, most=2000, late=Late(lr=0.01, swap=swap)) for swap in (0.0, 0.2)]
    loop = ManyLoop(members, load_data(run.data), CPU)
    loop.train()
    kept = [[each.kept for each in epochs][2:] for epochs in loop.epochs]
    flipped = [sum(each.flipped for each in epochs[3:]) for epochs in loop.epochs]
    assert kept[0] == pytest.approx([2000] * 4, rel=0.003)
    assert kept[1] == pytest.approx([2000] * 4, rel=0.003)
    assert flipped[0] == 0
    assert flipped[1] > 0


def test_fewer_and_fewer_change_places_until_none_do(small):
    member = Member(small(epochs=10, method=LearnedGates(freeze=0.5)), late=Late(swap=0.1))
    shares = [swap_share(member, epoch) for epoch in range(10)]
    assert shares[:6] == [0.0] * 6
    assert shares[6] > shares[7] > shares[8] == shares[9] == 0.0


@pytest.mark.parametrize("swap", [-0.1, 1.0])
def test_a_share_that_is_none_is_refused(swap):
    with pytest.raises(ValueError, match="swap is a fraction"):
        Late(swap=swap)
