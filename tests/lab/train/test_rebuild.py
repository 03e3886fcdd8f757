"""A method may replace layers during training; checkpoints before and after are complete."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sparsegate_lab.methods import Svd
from sparsegate_lab.methods.svd import LowRank
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import RunFolder, Watcher, empty_network, train


class PowerCutError(Exception):
    """What stops a run in these tests."""


class StopsAt(Watcher):
    """Stops a run after one of its steps."""

    def __init__(self, step):
        self.step = step

    def stepped(self, step):
        if step == self.step:
            raise PowerCutError


def state(run, folder):
    return load_file(RunFolder(folder / run.name, run).network)


# Nine steps an epoch, new layers after the second: stopped before, and with one or two
# checkpoints of the new layers.
@pytest.mark.parametrize("step", [13, 20, 30])
def test_a_run_stopped_before_or_after_the_rebuilding_goes_on_to_the_same_bits(
    step, small, tmp_path
):
    run = small(epochs=4, method=Svd(rank=5))
    straight = train(run, folder=tmp_path / "straight")
    with pytest.raises(PowerCutError):
        train(run, folder=tmp_path / "stopped", watch=StopsAt(step))
    resumed = train(run, folder=tmp_path / "stopped")
    wanted, found = state(run, tmp_path / "straight"), state(run, tmp_path / "stopped")
    assert list(wanted) == list(found)
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    assert resumed.epochs == straight.epochs


def test_the_epoch_that_ends_with_the_rebuilding_is_measured_with_the_new_layers(small, tmp_path):
    record = train(small(epochs=4, method=Svd(rank=5)), folder=tmp_path)
    dense, factored = 266_200, 266_200 - 235_200 + 5 * (300 + 784)
    assert [epoch.kept for epoch in record.epochs] == [dense, factored, factored, factored]


@pytest.mark.parametrize(("at", "dense_epochs"), [(0.0, 0), (0.1, 0), (1.0, 1)])
def test_the_layers_may_be_new_from_the_first_step_or_only_after_the_last(
    at, dense_epochs, small, tmp_path
):
    record = train(small(epochs=2, method=Svd(rank=5, at=at)), folder=tmp_path)
    assert sum(epoch.kept == 266_200 for epoch in record.epochs) == dense_epochs
    assert record.epochs[-1].kept == record.kept == 36_420


def test_up_to_the_rebuilding_the_losses_are_those_of_the_dense_network(small, tmp_path):
    factored, late = (
        train(small(epochs=2, method=Svd(rank=5, at=at)), folder=tmp_path) for at in (0.5, 1.0)
    )
    assert factored.epochs[0].loss == late.epochs[0].loss
    assert factored.epochs[1].loss != late.epochs[1].loss


def test_the_finished_network_loads_into_the_empty_one(small, tmp_path):
    run = small(method=Svd(rank=5))
    record = train(run, folder=tmp_path)
    model = empty_network(run)
    model.load_state_dict(state(run, tmp_path))
    assert isinstance(model.fc1, LowRank)
    assert sum(each.numel() for each in model.parameters()) == record.kept + record.num_biases


def test_an_empty_network_of_a_method_without_stand_ins_is_the_model_itself(small):
    assert type(empty_network(dataclasses.replace(small())).fc1) is nn.Linear
    assert isinstance(empty_network(small()), LeNet300)


def test_an_empty_network_leaves_the_random_state_alone(small):
    before = torch.get_rng_state()
    empty_network(small(method=Svd()))
    assert torch.equal(torch.get_rng_state(), before)
