"""Two processes with a sharded model train the network of one; a killed one ends the run."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates, Magnitude
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Watcher, train

LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
SPARSE = ("--penalty.count", "4", "--gate-lr", "100", "--ramp", "0.2")


class EnoughSeenError(Exception):
    """What stops a run in these tests."""


class Begins(Watcher):
    """Sees from which step a run goes on, and stops it."""

    def began(self, run, folder, step, steps, num_weights):
        self.step = step
        raise EnoughSeenError


@pytest.fixture
def launch(python, environment, monkeypatch):
    """Runs `sparsegate train` in two processes on the CPU."""
    monkeypatch.setitem(environment, "ACCELERATE_USE_CPU", "true")
    return lambda *words: python(*LAUNCH, "-m", "sparsegate", "train", *words)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["apart", "small"])
def test_a_sharded_run_finds_the_network_of_one_process_also_when_it_is_resumed(
    update, launch, small, digits, tmp_path
):
    method = LearnedGates(penalty=Penalty(count=4.0), gate_lr=100.0, ramp=0.2, update=update)
    run = small(method=method, epochs=2)
    flags = (
        "--data",
        str(digits),
        "--epochs",
        "2",
        "--batch-size",
        "100",
        "--folder",
        str(tmp_path / "two"),
    )
    words = ("lenet300", "--shard", "--update", update, *SPARSE, *flags)
    done = launch(*words)
    assert done.returncode == 0, done.stderr
    place = tmp_path / "two" / run.name
    two, one = Record.load(place / "record.json"), train(run, folder=tmp_path / "one")
    assert two.machine["processes"] == 2
    states = [
        load_file(tmp_path / name / run.name / "network.safetensors") for name in ("one", "two")
    ]
    if update == "apart":  # rounding by chance differs among processes
        assert [epoch.loss for epoch in two.epochs] == pytest.approx(
            [epoch.loss for epoch in one.epochs], rel=1e-5
        )
        for name in states[0]:
            assert (
                torch.isclose(states[0][name], states[1][name], rtol=0, atol=1e-6).float().mean()
                > 0.999
            ), name
    assert two.kept == pytest.approx(one.kept, rel=0.01)
    (place / "record.json").unlink()  # as if it had been interrupted after the last checkpoint
    (place / "checkpoints" / "step-000000018.safetensors").unlink()
    again = launch(*words)
    assert again.returncode == 0, again.stderr
    assert Record.load(place / "record.json").kept == pytest.approx(two.kept, rel=0.01)


@pytest.mark.slow
def test_a_network_with_convolutions_can_be_sharded(launch, digits, tmp_path):
    flags = (
        "--data",
        str(digits),
        "--epochs",
        "1",
        "--batch-size",
        "100",
        "--lr",
        "0.01",
        "--no-pack",
    )
    done = launch("lenet5", "--shard", *flags, "--folder", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "two").rglob("record.json")
    run = Run(model="lenet5", data=str(digits), epochs=1, batch_size=100, lr=0.01)
    two, one = Record.load(path), train(run, folder=tmp_path / "one", pack=False)
    assert two.epochs[0].loss == pytest.approx(one.epochs[0].loss, rel=1e-4)
    assert two.kept == pytest.approx(one.kept, rel=0.01)


@pytest.mark.slow
def test_a_killed_process_ends_the_run_with_what_to_do_and_the_same_command_goes_on(
    environment, small, digits, tmp_path
):
    flags = (
        "--data",
        str(digits),
        "--epochs",
        "400",
        "--batch-size",
        "100",
        "--folder",
        str(tmp_path),
    )
    words = [sys.executable, *LAUNCH, "-m", "sparsegate", "train", "lenet300", *flags]
    place = tmp_path / small(method=LearnedGates(), epochs=400).name
    started = {**environment, "ACCELERATE_USE_CPU": "true"}
    running = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=started
    )
    until = time.monotonic() + 120
    while not list(place.glob("checkpoints/*.safetensors")) and time.monotonic() < until:
        time.sleep(0.2)
    children = subprocess.run(
        ["pgrep", "-P", str(running.pid)], capture_output=True, text=True
    ).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, complaints = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "the same command continues from the last checkpoint" in complaints
    newest = max(
        int(path.stem.removeprefix("step-"))
        for path in place.glob("checkpoints/step-*.safetensors")
    )
    watch = Begins()
    with pytest.raises(EnoughSeenError):  # one process goes on with what two have left
        train(small(method=LearnedGates(), epochs=400), folder=tmp_path, watch=watch)
    assert watch.step == newest > 0


@pytest.mark.parametrize("method", [Dense(), LearnedGates()])
def test_one_process_has_nobody_to_share_with(method, small, tmp_path):
    with pytest.raises(ValueError, match="--shard needs several processes, got one"):
        train(small(method=method), folder=tmp_path, shard=True)


def test_the_dense_network_that_a_drop_counts_from_is_shared_out_too(small, tmp_path):
    with pytest.raises(ValueError, match="--shard needs several processes, got one"):
        train(small(method=LearnedGates(target=Target(max_drop=1.0))), folder=tmp_path, shard=True)
    assert not list(tmp_path.iterdir())  # nor was it trained before that was said


def test_a_method_that_needs_whole_weights_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match="Magnitude needs whole weights and cannot train sharded"):
        train(small(method=Magnitude()), folder=tmp_path, shard=True)
