"""Two processes train the network that one trains."""

import pytest
import torch
from safetensors.torch import load_file

from sparsegate.methods import LearnedGates
from sparsegate.record import Record
from sparsegate.train import train

# `accelerate launch --cpu --num_processes 2` starts one process only (accelerate 1.15); torch's launcher starts two.
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


@pytest.fixture
def launch(python, environment, monkeypatch):
    """Runs `sparsegate train` in two processes on the CPU."""
    monkeypatch.setitem(environment, "ACCELERATE_USE_CPU", "true")
    return lambda *words: python(*LAUNCH, "-m", "sparsegate", "train", *words)


@pytest.mark.parametrize("update", ["apart", "together"])
def test_two_processes_find_the_network_of_one_but_for_rounding(update, launch, small, digits, tmp_path):
    run = small(method=LearnedGates(update=update))
    flags = ("--data", str(digits), "--epochs", "2", "--batch-size", "100", "--folder", str(tmp_path / "two"))
    done = launch("lenet300", "--update", update, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 1/2") == done.stdout.count("test accuracy") == 1  # one process shows
    assert len(list((tmp_path / "two").rglob("events.out.*"))) == 1
    (path,) = (tmp_path / "two").rglob("record.json")
    two, one = Record.load(path), train(run, folder=tmp_path / "one")
    assert path.parent.name == run.name
    assert two.machine["processes"] == 2
    assert two.test == pytest.approx(one.test, abs=1)
    assert [epoch.loss for epoch in two.epochs] == pytest.approx([epoch.loss for epoch in one.epochs], rel=1e-5)
    assert two.kept == pytest.approx(one.kept, abs=5)
    states = [load_file(tmp_path / name / run.name / "network.safetensors") for name in ("one", "two")]
    for name in states[0]:
        close = torch.isclose(states[0][name], states[1][name], rtol=0, atol=1e-6)
        assert close.float().mean() > 0.999, name


def test_a_batch_that_does_not_divide_by_two_is_an_error(launch, digits, tmp_path):
    done = launch("lenet300", "--data", str(digits), "--batch-size", "75", "--folder", str(tmp_path / "runs"))
    assert done.returncode != 0
    assert "sparsegate: error: batch_size 75 does not divide among 2 processes" in done.stderr
    assert not (tmp_path / "runs").exists()
