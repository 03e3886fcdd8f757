"""Two processes train the network that one trains."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sparsegate_lab.data import load_data
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import ResNet20
from sparsegate_lab.record import Record
from sparsegate_lab.train import train

# `accelerate launch --cpu --num_processes 2` starts one process only (accelerate 1.15).
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


@pytest.fixture
def launch(python, environment, monkeypatch):
    """Runs `sparsegate train` in two processes on the CPU."""
    monkeypatch.setitem(environment, "ACCELERATE_USE_CPU", "true")
    return lambda *words: python(*LAUNCH, "-m", "sparsegate", "train", *words)


@pytest.mark.parametrize("update", ["apart", pytest.param("together", marks=pytest.mark.slow)])
def test_two_processes_find_the_network_of_one_but_for_rounding(
    update, launch, small, digits, tmp_path
):
    run = small(method=LearnedGates(update=update))
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
    done = launch("lenet300", "--update", update, *flags)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("epoch 1/2") == done.stdout.count("test accuracy") == 1
    )  # one process shows
    assert len(list((tmp_path / "two").rglob("events.out.*"))) == 1
    (path,) = (tmp_path / "two").rglob("record.json")
    two, one = Record.load(path), train(run, folder=tmp_path / "one")
    assert path.parent.name == run.name
    assert two.machine["processes"] == 2
    assert two.test == pytest.approx(one.test, abs=1)
    assert [epoch.loss for epoch in two.epochs] == pytest.approx(
        [epoch.loss for epoch in one.epochs], rel=1e-5
    )
    assert two.kept == pytest.approx(one.kept, abs=5)
    states = [
        load_file(tmp_path / name / run.name / "network.safetensors") for name in ("one", "two")
    ]
    for name in states[0]:
        close = torch.isclose(states[0][name], states[1][name], rtol=0, atol=1e-6)
        assert close.float().mean() > 0.999, name


@pytest.mark.slow
def test_the_accuracy_of_a_network_with_batchnorm_is_that_of_the_network_that_is_saved(
    launch, tmp_path
):
    def write(name, count):
        record = np.random.default_rng(count).integers(0, 160, (count, 3073), dtype=np.uint8)
        record[:, 0] = np.arange(count) % 10
        record[:, 1:] += (
            9 * record[:, :1]
        )  # brighter from class to class, so that there is something to learn
        (tmp_path / "cifar" / name).write_bytes(record.tobytes())

    (tmp_path / "cifar").mkdir()
    for number in range(1, 6):
        write(f"data_batch_{number}.bin", 120)
    write("test_batch.bin", 1600)  # more than a batch, so that the second process has some
    words = (
        "--method",
        "dense",
        "--epochs",
        "1",
        "--batch-size",
        "20",
        "--lr",
        "0.02",
        "--no-pack",
    )
    done = launch(
        "resnet20", "--data", str(tmp_path / "cifar"), *words, "--folder", str(tmp_path / "runs")
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").rglob("record.json")
    model = ResNet20().eval()
    model.load_state_dict(load_file(path.parent / "network.safetensors"))
    data = load_data(str(tmp_path / "cifar"))
    with torch.no_grad():
        right = (
            (model(data.normalise(data.test.images)).argmax(1) == data.test.labels).float().mean()
        )
    assert Record.load(path).test == pytest.approx(100 * float(right), abs=1e-3)


@pytest.mark.slow
def test_a_run_that_has_ended_is_shown_by_one_process(launch, small, digits, tmp_path):
    train(small(method=Dense()), folder=tmp_path)
    flags = (
        "--data",
        str(digits),
        "--epochs",
        "2",
        "--batch-size",
        "100",
        "--folder",
        str(tmp_path),
    )
    done = launch("lenet300", "--method", "dense", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1


@pytest.mark.slow
def test_a_batch_that_does_not_divide_by_two_is_an_error(launch, digits, tmp_path):
    done = launch(
        "lenet300", "--data", str(digits), "--batch-size", "75", "--folder", str(tmp_path / "runs")
    )
    assert done.returncode != 0
    assert "sparsegate: error: batch_size 75 does not divide among 2 processes" in done.stderr
    assert not (tmp_path / "runs").exists()
