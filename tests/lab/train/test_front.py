"""Layers at the front are frozen, computed once, and part of the finished network."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file, save_file

from sparsegate.cli import main
from sparsegate.target import Target
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import Dense, LearnedGates, Svd
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Teacher, Watcher, empty_network, normaliser_of, train
from sparsegate_lab.train.front import Front


class Listener(Watcher):
    """Hears for how many images the front is done, and may cut the power after an epoch."""

    def __init__(self, cut=0):
        self.computations, self.cut = [], cut

    def computed(self, done, total):
        self.computations.append((done, total))

    def measured(self, epoch):
        if epoch.epoch == self.cut:
            raise KeyboardInterrupt


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Initial weights of LeNet-5; the cache is empty."""
    monkeypatch.setenv("SPARSEGATE_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(1)
    save_file(LeNet5().state_dict(), tmp_path / "begun.safetensors")
    return tmp_path / "begun.safetensors"


@pytest.fixture
def behind(small, begun):
    """Makes runs of LeNet-5 behind its first convolution."""
    settings = {"model": "lenet5", "weights": str(begun), "front": "conv1", "shift": 0}
    return lambda **changes: small(**{**settings, "epochs": 2, **changes})


def network(folder, run):
    return load_file(folder / run.name / "network.safetensors")


@pytest.mark.parametrize("flip", [False, True])
def test_the_front_stays_and_the_rest_learns_and_is_made_sparse(flip, behind, begun, tmp_path):
    run, heard = (
        behind(flip=flip, method=LearnedGates(target=Target(keep=0.02))),
        Listener(),
    )
    record = train(run, folder=tmp_path, watch=heard)
    found, before = network(tmp_path, run), load_file(begun)
    assert torch.equal(found["conv1.weight"], before["conv1.weight"])
    assert not torch.equal(found["conv2.weight"], before["conv2.weight"])
    assert record.total == 431_080 - 580
    assert record.kept == 500 + round(0.02 * 430_000)  # gates are on the rest only
    assert record.epochs[-1].kept == record.kept
    counts = load_data(run.data).counts
    images = counts["training images"] * (2 if flip else 1)
    images += counts["validation images"] + counts["test images"]
    assert heard.computations[-1] == (images, images)


def test_the_accuracy_is_that_of_the_whole_network_on_the_images(behind, tmp_path):
    run = behind(method=Dense())
    record = train(run, folder=tmp_path)
    model, data = LeNet5(), load_data(run.data)
    model.load_state_dict(network(tmp_path, run))
    with torch.no_grad():
        right = model(normaliser_of(run, data)(data.test.images)).argmax(1) == data.test.labels
    assert record.test == pytest.approx(100 * float(right.float().mean()), abs=0.5)
    assert record.kept == record.total


def test_the_first_step_is_nearly_that_with_images(behind, tmp_path):
    run = behind(method=Dense(), epochs=1)
    run = dataclasses.replace(run, batch_size=len(load_data(run.data).train))
    whole = dataclasses.replace(run, front="")
    one, other = (train(each, folder=tmp_path).epochs[0].loss for each in (run, whole))
    assert one == pytest.approx(other, rel=1e-3)


def test_an_interrupted_run_goes_on_to_the_same_bits_with_the_outputs_it_had(behind, tmp_path):
    run = behind(flip=True, epochs=3, method=LearnedGates(target=Target(keep=0.1)))
    train(run, folder=tmp_path / "straight")
    with pytest.raises(KeyboardInterrupt):
        train(run, folder=tmp_path / "cut", watch=Listener(cut=2))
    second = Listener()
    train(run, folder=tmp_path / "cut", watch=second)
    assert second.computations == []
    wanted, found = network(tmp_path / "straight", run), network(tmp_path / "cut", run)
    assert list(wanted) == list(found)
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)


def test_other_weights_of_the_front_or_other_images_are_computed_again(
    behind, begun, tmp_path, digits
):
    train(behind(epochs=1, method=Dense()), folder=tmp_path)
    state = load_file(begun)
    state["conv2.weight"] += 1  # not in the front
    save_file(state, begun)
    heard = Listener()
    train(behind(epochs=1, method=Dense()), folder=tmp_path, watch=heard)
    assert heard.computations == []
    state["conv1.weight"] += 1
    save_file(state, begun)
    train(behind(epochs=1, method=Dense()), folder=tmp_path, watch=heard)
    assert heard.computations


def test_layers_that_replace_others_are_not_in_the_front(behind, tmp_path):
    run = behind(method=Svd(rank=5, at=0.5, only=("fc1.*",)))
    record = train(run, folder=tmp_path)
    model = empty_network(run)
    model.load_state_dict(network(tmp_path, run))
    assert [layer.name for layer in record.layers] == [
        layer.name for layer in record.layers if "Stored" not in layer.name
    ]
    assert type(model.conv1) is torch.nn.Conv2d
    assert record.epochs[-1].kept == record.kept < record.total


def test_a_teacher_has_the_same_front(behind, begun, tmp_path):
    taught = behind(method=Dense())
    folder = tmp_path / train(taught, folder=tmp_path).name
    run = behind(epochs=1, distil=Teacher(str(folder)), method=Dense())
    assert train(run, folder=tmp_path).epochs
    state = load_file(begun)
    save_file({name: 2 * each for name, each in state.items()}, begun)
    with pytest.raises(ValueError, match="a teacher has another front conv1"):
        train(dataclasses.replace(run, seed=5), folder=tmp_path)


def test_a_cut_file_of_outputs_is_named(behind, tmp_path):
    train(behind(epochs=1, method=Dense()), folder=tmp_path)
    largest = max((tmp_path / "cache").glob("*.maps"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-7])
    with pytest.raises(ValueError, match=r"\.maps: expected .* delete the file to compute them"):
        train(behind(epochs=1, method=Dense(), seed=1), folder=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"front": "conv3"}, r"front is one of the network's parts \(conv1, conv2, fc1, fc2\)"),
        ({"front": "conv2"}, "layers behind it read more than its output, or layers before it"),
        ({"weights": ""}, "it has learned nothing; give --weights"),
        ({"shift": 2, "erase": 3}, "add --shift 0 --erase 0"),
    ],
)
def test_what_cannot_be_a_front_is_refused(changes, message, behind, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(behind(method=Dense(), **changes), folder=tmp_path)


def test_outputs_that_fp16_cannot_hold_are_refused(behind, begun, tmp_path):
    state = load_file(begun)
    state["conv1.weight"] *= 1e6
    save_file(state, begun)
    with pytest.raises(ValueError, match="too large for fp16"):
        train(behind(method=Dense()), folder=tmp_path)


def test_a_front_that_flattens_is_refused_whole():
    with pytest.raises(ValueError, match="front fc1 does not fit"):
        Front.taken_from(LeNet300(), "fc1", LeNet300.image_shape)


def test_the_command_says_what_it_computes_once(behind, tmp_path, capsys):
    run = behind(method=Dense())
    words = ["train", *run.to_flags(), "--folder", str(tmp_path / "runs")]
    assert main(words) == 0
    assert "computing what the front gives for " in " ".join(capsys.readouterr().out.split())
    (record,) = (tmp_path / "runs").glob("*/record.json")
    assert Record.load(record).run["front"] == "conv1"


def test_runs_without_a_front_keep_their_names():
    assert Run(epochs=5).name == Run.from_json(Run(epochs=5).to_json()).name
    assert "front" in Run(epochs=5).to_json()
