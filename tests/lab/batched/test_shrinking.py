"""Units that nobody reads leave the steps, and what is left is trained as if they were there."""

import dataclasses

import pytest
import torch

from sparsegate.price import Penalty
from sparsegate_lab.batched import Late, ManyLoop, ManyWatcher, Member, train_many
from sparsegate_lab.batched.shrinking import Shrinking, _filled
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import LearnedGates

GATES = LearnedGates(penalty=Penalty(count=30.0), gate_lr=30.0, ramp=0.2, freeze=0.5)
CPU = torch.device("cpu")


def members(run, **beside) -> list[Member]:
    return [
        Member(run, most=2000, **beside),
        Member(dataclasses.replace(run, seed=3), most=600, **beside),
    ]


def trained(loop: ManyLoop) -> ManyLoop:
    loop.train()
    return loop


def kept(loop: ManyLoop, place: int) -> int:
    return sum(
        int(torch.count_nonzero(each[place]))
        for name, each in loop.stack.finished().items()
        if "weight" in name
    )


@pytest.mark.parametrize(
    "late", [Late(), Late(lr=0.003, weight_decay=0.0, adapt=True, warmup=0.5)], ids=["sgd", "adapt"]
)
def test_once_the_mask_stands_still_nothing_is_changed(small, late):
    run = small(epochs=4, method=GATES)
    loops = [ManyLoop(members(run, late=late), load_data(run.data), CPU) for _ in range(2)]
    loops[1].shrinking.links = []
    one, whole = (trained(loop) for loop in loops)
    assert (
        one.stack.active["fc1.weight"].weight.numel()
        < 0.5 * whole.stack.active["fc1.weight"].weight.numel()
    )
    assert min(kept(whole, 0), kept(whole, 1)) > 100
    masks = [
        {name: each != 0 for name, each in loop.stack.finished().items() if "weight" in name}
        for loop in loops
    ]
    assert all(torch.equal(masks[0][name], masks[1][name]) for name in masks[0])
    for name in masks[0]:
        torch.testing.assert_close(
            one.stack.finished()[name], whole.stack.finished()[name], rtol=1e-3, atol=1e-5
        )
    losses = [[epoch.loss for epoch in each] for each in one.epochs]
    assert losses == [
        pytest.approx([epoch.loss for epoch in each], rel=1e-4) for each in whole.epochs
    ]


def test_members_that_shed_end_with_their_number(small):
    run = small(
        epochs=6, method=dataclasses.replace(GATES, penalty=Penalty(count=60.0), freeze=0.75)
    )
    loop = ManyLoop(members(run, shed=True), load_data(run.data), CPU)
    sizes = []
    loop.watch.measured = lambda epochs: sizes.append(
        loop.stack.active["fc1.weight"].weight.numel()
    )
    loop.train()
    assert sizes[4] < sizes[0]  # the gates stop only in the fifth epoch
    for place, most in enumerate((2000, 600)):
        assert 0 < kept(loop, place) <= most


class PowerCutError(Exception):
    """What stops training in the next test."""


class StopsAfterThree(ManyWatcher):
    """Stops training after the third epoch."""

    def measured(self, epochs):
        if epochs[0].epoch == 3:
            raise PowerCutError


def test_a_run_that_was_interrupted_shrinks_again(small, tmp_path):
    wanted = members(small(epochs=4, method=GATES))
    whole = train_many(wanted, folder=tmp_path / "straight")
    with pytest.raises(PowerCutError):
        train_many(wanted, folder=tmp_path / "stopped", watch=StopsAfterThree(), every=0.0)
    again = train_many(wanted, folder=tmp_path / "stopped")
    assert [each.epochs for each in again] == [each.epochs for each in whole]
    for member in wanted:
        networks = [
            tmp_path / each / member.name / "network.safetensors"
            for each in ("straight", "stopped")
        ]
        assert networks[0].read_bytes() == networks[1].read_bytes()


def test_without_a_number_to_keep_nothing_shrinks(small):
    run = small(method=GATES)
    loop = ManyLoop([Member(run), Member(run, most=500)], load_data(run.data), CPU)
    assert not Shrinking(loop.stack, loop.example).shrunk_(frozen=True, cut=True)


def test_narrower_members_are_filled_up_with_units_that_nobody_reads():
    live = torch.zeros(2, 40, dtype=torch.bool)
    live[0, 3:20] = True
    live[1, 39] = True
    chosen = _filled(live)
    assert chosen.shape == (2, 32)
    assert set(range(3, 20)) <= set(chosen[0].tolist())
    assert 39 in chosen[1].tolist()
    assert all(len(set(row)) == 32 and row == sorted(row) for row in chosen.tolist())
