"""An interrupted run goes on to the network that an uninterrupted one finds, bit for bit."""

import dataclasses
import random
import shutil
import subprocess
import sys
import time
import warnings

import pytest

from sparsegate.cli import main
from sparsegate.price import Penalty
from sparsegate_lab.data import mnist
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import Run, RunFolder, Watcher, train

SPARSE = LearnedGates(penalty=Penalty(count=4.0), gate_lr=100.0, ramp=0.2)
SAMPLED = dataclasses.replace(SPARSE, draw="sample")
SMALL = dataclasses.replace(SPARSE, update="small")
CLOSING = LearnedGates(penalty=Penalty(count=1e6))


class PowerCutError(Exception):
    """What stops a run in these tests."""


class StopsAt(Watcher):
    """Stops a run after one of its steps, or after measuring one of its epochs."""

    def __init__(self, step=None, epoch=None):
        self.step, self.epoch = step, epoch

    def stepped(self, step):
        if step == self.step:
            raise PowerCutError

    def measured(self, epoch):
        if epoch.epoch == self.epoch:
            raise PowerCutError


def network(folder, run):
    return (folder / run.name / "network.safetensors").read_bytes()


@pytest.mark.parametrize("method", [SPARSE, SAMPLED, SMALL])
@pytest.mark.parametrize("stops", [StopsAt(epoch=1), StopsAt(step=5), StopsAt(step=22)])
def test_a_run_stopped_by_an_error_goes_on_as_if_nothing_had_happened(
    method, stops, small, tmp_path
):
    run = small(epochs=3, method=method)
    straight = train(run, folder=tmp_path / "straight")
    with pytest.raises(PowerCutError):
        train(run, folder=tmp_path / "stopped", watch=stops)
    resumed = train(run, folder=tmp_path / "stopped")
    assert network(tmp_path / "stopped", run) == network(tmp_path / "straight", run)
    assert resumed.epochs == straight.epochs
    assert (resumed.layers, resumed.test, resumed.notes) == (
        straight.layers,
        straight.test,
        straight.notes,
    )


def test_a_run_stopped_after_every_epoch_goes_on_as_if_nothing_had_happened(small, tmp_path):
    run = small(epochs=4, method=SAMPLED)
    straight = train(run, folder=tmp_path / "straight")
    for epoch in (1, 2, 3, 4):
        with pytest.raises(PowerCutError):
            train(run, folder=tmp_path / "stopped", watch=StopsAt(epoch=epoch))
    resumed = train(run, folder=tmp_path / "stopped")
    assert network(tmp_path / "stopped", run) == network(tmp_path / "straight", run)
    assert resumed.epochs == straight.epochs


def test_steps_before_the_last_checkpoint_are_not_done_again(small, tmp_path):
    run = small(epochs=3)
    with pytest.raises(PowerCutError):
        train(run, folder=tmp_path, watch=StopsAt(epoch=2))
    train(run, folder=tmp_path, watch=StopsAt(step=18))  # would stop at a step of epoch 2


def test_a_resumed_run_notes_a_closed_layer_once_and_warns_of_nothing(small, tmp_path):
    run = small(epochs=3, method=CLOSING)
    straight = train(run, folder=tmp_path / "straight")
    with pytest.raises(PowerCutError):
        train(run, folder=tmp_path / "stopped", watch=StopsAt(epoch=2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resumed = train(run, folder=tmp_path / "stopped")
    assert resumed.notes == straight.notes
    assert [str(each.message) for each in caught if "has closed" in str(each.message)] == []


def test_a_run_killed_at_its_first_checkpoint_ends_as_an_uninterrupted_one(
    small, python, environment, tmp_path
):
    run = small(epochs=6, batch_size=50)
    train(run, folder=tmp_path / "straight")
    _kill(_words(run, tmp_path / "killed"), tmp_path / "killed" / run.name, environment)
    assert not (tmp_path / "killed" / run.name / "network.safetensors").exists()
    done = python("-m", "sparsegate", *_words(run, tmp_path / "killed"))
    assert done.returncode == 0, done.stderr
    assert "resuming at step" in " ".join(done.stdout.split())
    assert network(tmp_path / "killed", run) == network(tmp_path / "straight", run)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_as_an_uninterrupted_one(
    small, environment, tmp_path, capsys
):
    run = small(epochs=36, batch_size=50)
    train(run, folder=tmp_path / "straight")
    folder = tmp_path / "killed" / run.name
    for _ in range(2):
        _kill(_words(run, tmp_path / "killed"), folder, environment, delay=random.uniform(0, 0.12))
    (folder / "checkpoints" / ".step-000000018.safetensors.1.partial").write_bytes(b"a part")
    assert main(_words(run, tmp_path / "killed")) == 0
    assert network(tmp_path / "killed", run) == network(tmp_path / "straight", run)
    assert not list(folder.rglob(".*.partial"))


def test_a_second_process_on_a_run_gets_one_line_and_changes_nothing(small, tmp_path, capsys):
    run = small()
    with RunFolder(tmp_path / run.name, run).opened():
        before = sorted(path.name for path in tmp_path.rglob("*"))
        assert main(_words(run, tmp_path)) == 2
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
    error = capsys.readouterr().err
    assert error.startswith(
        f"sparsegate: error: another process is training in {tmp_path / run.name}"
    )
    assert error.count("\n") == 1
    assert main(_words(run, tmp_path)) == 0


def _words(run, folder):
    flags = {
        "--data": run.data,
        "--epochs": run.epochs,
        "--batch-size": run.batch_size,
        "--folder": folder,
    }
    return ["train", run.model, *(str(word) for pair in flags.items() for word in pair)]


def _kill(words, folder, environment, delay=0.0):
    """Starts the command, and kills it a moment after it has written a new checkpoint."""
    checkpoints = folder / "checkpoints"
    before, deadline = set(checkpoints.glob("step-*")), time.monotonic() + 60
    command = [sys.executable, "-m", "sparsegate", *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while (
            not set(checkpoints.glob("step-*")) - before
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
    assert process.returncode == -9, "the run ended before it could be killed"


def fewer(split, count, num_classes):
    """The first images of a split, with fewer classes."""
    return split.images[:count, 0], split.labels[:count].clamp(max=num_classes - 1)


@pytest.mark.parametrize(
    ("count", "num_classes", "words"),
    [
        (995, 10, "900 training images, and now it has 896"),
        (1000, 6, "10 classes, and now it has 6"),
    ],
)
def test_data_that_has_changed_in_between_is_an_error_and_nothing_is_lost(
    count, num_classes, words, digits, tmp_path, as_idx
):
    shutil.copytree(digits, tmp_path / "digits")
    run = Run(
        model="lenet300", data=str(tmp_path / "digits"), epochs=3, batch_size=100, method=SPARSE
    )
    with pytest.raises(PowerCutError):
        train(run, folder=tmp_path, watch=StopsAt(epoch=1))
    for stem, split, left in (("train", mnist().train, count), ("t10k", mnist().test, 200)):
        images, labels = fewer(split, left, num_classes)
        (tmp_path / "digits" / f"{stem}-images-idx3-ubyte").write_bytes(as_idx(images))
        (tmp_path / "digits" / f"{stem}-labels-idx1-ubyte").write_bytes(as_idx(labels))
    kept = sorted((tmp_path / run.name / "checkpoints").iterdir())
    with pytest.raises(
        ValueError, match=f"its data had {words}; bring the old data back, or begin anew: delete"
    ):
        train(run, folder=tmp_path)
    assert sorted((tmp_path / run.name / "checkpoints").iterdir()) == kept


def interrupted(run, folder, epoch=2):
    """The folder of a run with checkpoints of its first epochs."""
    with pytest.raises(PowerCutError):
        train(run, folder=folder, watch=StopsAt(epoch=epoch))
    return RunFolder(folder / run.name, run)


def test_after_a_damaged_checkpoint_the_run_ends_as_an_uninterrupted_one_and_says_so(
    small, tmp_path
):
    run = small(epochs=3, method=SAMPLED)
    straight = train(run, folder=tmp_path / "straight")
    last = max((interrupted(run, tmp_path / "stopped").path / "checkpoints").iterdir())
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    resumed = train(run, folder=tmp_path / "stopped")
    assert network(tmp_path / "stopped", run) == network(tmp_path / "straight", run)
    assert resumed.epochs == straight.epochs
    assert [note for note in resumed.notes if f"{last} is damaged" in note]


@pytest.mark.parametrize("step", [10, 36, 99999])
def test_a_checkpoint_of_a_step_that_the_run_does_not_have_is_refused(step, small, tmp_path):
    run = small(epochs=3, method=Dense())
    folder = interrupted(run, tmp_path, epoch=1)
    folder.checkpoints.save(step, LeNet300(), [], {"epochs": []})
    with pytest.raises(ValueError, match=f"is of step {step}; expected .* multiple of 9 up to 27"):
        train(run, folder=tmp_path)


@pytest.mark.parametrize(
    ("notes", "wanted"),
    [
        ({"notes": 5}, "notes of the checkpoint.notes: expected a list, got 5"),
        ({"epochs": [{}]}, r"notes of the checkpoint.epochs\[0\].epoch: missing"),
        ({"seconds": "long"}, 'notes of the checkpoint.seconds: expected a number, got "long"'),
    ],
)
def test_notes_of_a_checkpoint_that_do_not_fit_are_refused_by_field(notes, wanted, small, tmp_path):
    run = small(epochs=3, method=Dense())
    interrupted(run, tmp_path).checkpoints.save(18, LeNet300(), [], notes)
    with pytest.raises(ValueError, match=wanted):
        train(run, folder=tmp_path)
