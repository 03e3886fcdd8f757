"""Runs begin with weights of a file or of another run, and may end early."""

import dataclasses
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from sparsegate.files import compress
from sparsegate.price import Penalty
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import MemoryShortError, Stop, train
from sparsegate_lab.train.weights import read_weights, weights_file

CLOSING = LearnedGates(penalty=Penalty(count=4.0), gate_lr=400.0, ramp=0.0, freeze=1.0)


class Full(Dense):
    """Asks for more memory than there is, as a large batch does on a GPU."""

    def before_step(self, model, optimizers, progress):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB")


@pytest.fixture(scope="module")
def dense(small, tmp_path_factory):
    """A dense run that has ended: its description and its folder."""
    folder = tmp_path_factory.mktemp("dense")
    run = small(method=Dense(), lr=0.1)
    train(run, folder=folder)
    return run, folder / run.name


def test_a_new_head_is_nothing_that_an_early_stop_could_compare_with(dense, small, tmp_path):
    _, folder = dense
    run = small(method=CLOSING, weights=str(folder), new_head=("fc3",), stop=Stop(rate=1.01))
    with pytest.raises(
        ValueError, match=r"a new head has not learned anything yet; give --stop\.baseline"
    ):
        train(run, folder=tmp_path)


def test_the_smallest_batch_is_not_told_to_become_smaller(small, tmp_path):
    with pytest.raises(
        MemoryShortError, match=r"batch_size 1 in bf16; try several GPUs that share the model"
    ):
        train(small(method=Full(), batch_size=1, precision="bf16"), folder=tmp_path)


def test_a_run_begins_with_the_network_of_another(dense, small, tmp_path):
    _, folder = dense
    first = train(small(method=Dense(), epochs=1, lr=0.01), folder=tmp_path).epochs[0]
    later = train(
        small(method=Dense(), epochs=1, lr=0.01, weights=str(folder)), folder=tmp_path
    ).epochs[0]
    assert later.loss < 0.7 * first.loss
    assert later.validation > first.validation


def test_gates_start_by_the_size_of_weights_that_were_loaded(dense, small, tmp_path):
    _, folder = dense
    method = LearnedGates(keep=0.1, keeps=(("fc3.*", 1.0),), gate_lr=0.0)
    record = train(small(method=method, epochs=1, lr=1e-6, weights=str(folder)), folder=tmp_path)
    kept = {layer.name: layer.kept for layer in record.layers}
    assert kept == {"fc1.weight": 23_520, "fc2.weight": 3_000, "fc3.weight": 1_000}
    weight = load_file(folder / "network.safetensors")["fc1.weight"].abs()
    left = load_file(tmp_path / record.name / "network.safetensors")["fc1.weight"] != 0
    assert weight[left].min() >= weight[~left].max()


@pytest.mark.parametrize("ending", ["pth", "safetensors", "sparse.safetensors", "sg"])
def test_every_kind_of_file_gives_the_same_tensors(ending, tmp_path):
    state, path = LeNet300().state_dict(), tmp_path / f"network.{ending}"
    if ending == "pth":
        torch.save(state, path)
    elif ending == "safetensors":
        save_file(state, path)
    else:
        compress(state).save(path)
    assert all(torch.equal(tensor, state[name]) for name, tensor in read_weights(str(path)).items())


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("nowhere.pth", "there are no weights at nowhere.pth"),
        (".", "not the folder of a run that has ended"),
        ("hf://owner/name", "a file of the hub is hf://OWNER/NAME/FILE"),
    ],
)
def test_weights_that_are_not_there_are_refused(source, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=wanted):
        weights_file(source)


def test_weights_of_the_hub_without_a_network_are_refused_at_once(monkeypatch, tmp_path):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"hf://a/b/c\.pt cannot be fetched: c\.pt of a/b is not"):
        weights_file("hf://a/b/c.pt")
    assert time.monotonic() - began < 15


def test_weights_of_another_network_are_refused_before_training(dense, small, tmp_path):
    run = small(model="lenet5", weights=str(dense[1]))
    with pytest.raises(
        ValueError, match=r"not those of this model: missing: conv1.weight.*unexpected: fc3.bias"
    ):
        train(run, folder=tmp_path)


def test_training_ends_when_the_network_is_small_and_accurate_enough(dense, small, tmp_path):
    whole = small(method=CLOSING, epochs=8, weights=str(dense[1]), stop=Stop(rate=1.5, drop=60.0))
    record = train(whole, folder=tmp_path)
    assert len(record.epochs) < 8
    assert record.rate >= 1.5
    assert all(each.kept * 1.5 > record.total for each in record.epochs[:-1])
    assert record.notes[-1].startswith(
        f"stopped after epoch {len(record.epochs)} of 8: 1.5x fewer weights, validation"
    )


def test_small_is_not_enough_if_accuracy_is_lost(small, tmp_path):
    run = small(method=CLOSING, stop=Stop(rate=1.01, baseline=100.0))
    assert len(train(run, folder=tmp_path).epochs) == run.epochs


def test_without_weights_there_is_nothing_to_compare_with(small, tmp_path):
    with pytest.raises(ValueError, match=r"give --weights, or --stop\.baseline"):
        train(small(stop=Stop(rate=2.0)), folder=tmp_path)


@pytest.mark.parametrize(
    ("precision", "wanted"),
    [
        (
            "fp32",
            r"too little memory for batch_size 100 in fp32; "
            r"try a smaller batch \(--batch-size 50\) or half the prec",
        ),
        ("bf16", r"in bf16; try a smaller batch \(--batch-size 50\)$"),
    ],
)
def test_a_full_gpu_is_answered_with_what_takes_less(precision, wanted, small, tmp_path):
    with pytest.raises(MemoryShortError, match=wanted):
        train(small(method=Full(), precision=precision), folder=tmp_path)


def test_checkpoints_can_be_written_less_often(small, tmp_path):
    run = small(epochs=5)
    train(run, folder=tmp_path, save_every=2)
    steps = sorted(int(path.stem.removeprefix("step-")) for path in tmp_path.rglob("step-*"))
    assert steps == [2 * 9, 4 * 9]
    with pytest.raises(ValueError, match="save_every is at least 1 epoch, got 0"):
        train(run, folder=tmp_path, save_every=0)


def test_a_run_that_would_stop_stops_at_the_same_epoch_when_it_is_resumed(dense, small, tmp_path):
    run = small(method=CLOSING, epochs=8, weights=str(dense[1]), stop=Stop(rate=1.5, drop=60.0))
    record = train(run, folder=tmp_path)
    (tmp_path / run.name / "record.json").unlink()
    again = train(run, folder=tmp_path)
    assert dataclasses.replace(again, seconds=0.0) == dataclasses.replace(record, seconds=0.0)
