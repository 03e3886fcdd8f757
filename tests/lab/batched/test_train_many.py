"""Members get folders like those of single runs, are trained once, and go on where they were interrupted."""

import dataclasses

import pytest

from sparsegate.cli import main
from sparsegate.price import Penalty
from sparsegate_lab.batched import ManyWatcher, Member, train_many
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import RunFolder

GATES = LearnedGates(penalty=Penalty(count=4.0), gate_lr=100.0, ramp=0.2, freeze=0.5)


class PowerCutError(Exception):
    """What stops training in these tests."""


class StopsAt(ManyWatcher):
    """Stops training after an epoch, or after a step."""

    def __init__(self, epoch=None, step=None):
        self.epoch, self.step, self.steps = epoch, step, []

    def stepped(self, step):
        self.steps.append(step)
        if step == self.step:
            raise PowerCutError

    def measured(self, epochs):
        if epochs[0].epoch == self.epoch:
            raise PowerCutError


def network(folder, member):
    return (folder / member.name / "network.safetensors").read_bytes()


@pytest.mark.parametrize(
    "stops", [StopsAt(epoch=3), pytest.param(StopsAt(step=22), marks=pytest.mark.slow)]
)
def test_what_was_interrupted_goes_on_as_if_nothing_had_happened(stops, small, tmp_path):
    run = small(epochs=4, method=dataclasses.replace(GATES, draw="sample"))
    members = [Member(run, average=0.9), Member(dataclasses.replace(run, seed=1), most=20_000)]
    straight = train_many(members, folder=tmp_path / "straight")
    with pytest.raises(PowerCutError):
        train_many(members, folder=tmp_path / "stopped", watch=stops, every=0.0)
    seen = StopsAt()
    resumed = train_many(members, folder=tmp_path / "stopped", watch=seen, every=0.0)
    assert seen.steps[0] == (28 if stops.epoch else 19)
    for one, other, member in zip(resumed, straight, members, strict=True):
        assert network(tmp_path / "stopped", member) == network(tmp_path / "straight", member)
        assert (one.epochs, one.layers, one.notes) == (other.epochs, other.layers, other.notes)
    assert not list((tmp_path / "stopped").glob("many-*"))


def test_members_that_have_ended_are_not_trained_again(small, tmp_path):
    runs = [small(epochs=1, seed=seed) for seed in range(3)]
    first = train_many(runs[:2], folder=tmp_path)
    seen = StopsAt()
    records = train_many(runs, folder=tmp_path, watch=seen)
    assert records[:2] == first
    assert (len(seen.steps), len(records)) == (9, 3)
    train_many(runs, folder=tmp_path, watch=StopsAt(step=1))


def test_a_member_s_folder_serves_the_other_verbs(small, tmp_path, capsys):
    run = small(epochs=1, method=GATES)
    train_many([run], folder=tmp_path)
    assert RunFolder(tmp_path / run.name, run).record() is not None
    assert main(["inspect", str(tmp_path / run.name)]) == 0
    assert "fc1.weight" in capsys.readouterr().out
    assert (
        main(["train", "lenet300", "--data", run.data, "--epochs", "1", "--folder", str(tmp_path)])
        == 0
    )


def test_a_loss_that_is_no_number_is_noted_and_the_others_go_on(small, tmp_path):
    good, bad = train_many([small(epochs=1), small(epochs=1, lr=1e18)], folder=tmp_path)
    assert any("the loss became nan" in note for note in bad.notes)
    assert not any("the loss became" in note for note in good.notes)
    assert good.epochs[0].loss < 2.5


def test_a_layer_that_has_closed_is_noted_once(small, tmp_path):
    closing = small(method=LearnedGates(penalty=Penalty(count=1e6), gate_lr=100.0, ramp=0.0))
    closed, others = train_many([closing, small()], folder=tmp_path)
    assert sum("every gate of fc1.weight has closed" in note for note in closed.notes) == 1
    assert not any("has closed" in note for note in others.notes)
