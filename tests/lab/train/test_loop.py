"""Training on a small folder: what the record says is what lies in the files."""

import dataclasses

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from sparsegate.price import Penalty
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import DivergedError, Run, Watcher, accuracy, train

SPARSE = LearnedGates(
    penalty=Penalty(count=4.0), gate_lr=200.0, ramp=0.0
)  # closes about half in two epochs
SAMPLED = dataclasses.replace(SPARSE, draw="sample")
CLOSING = LearnedGates(penalty=Penalty(count=1e6))


class Steps(Watcher):
    """Remembers the steps it saw."""

    def __init__(self):
        self.seen = []

    def stepped(self, step):
        self.seen.append(step)


def network(folder, run):
    return load_file(folder / run.name / "network.safetensors")


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("method", [SPARSE, SAMPLED, Dense()])
def test_the_record_counts_what_is_in_the_network_file(method, small, tmp_path):
    run = small(method=method)
    record = train(run, folder=tmp_path)
    state = network(tmp_path, run)
    weights = {name: tensor for name, tensor in state.items() if name.endswith("weight")}
    biases = [tensor for name, tensor in state.items() if name.endswith("bias")]
    assert {layer.name: layer.kept for layer in record.layers} == {
        name: int((tensor != 0).sum()) for name, tensor in weights.items()
    }
    assert {layer.name: layer.total for layer in record.layers} == {
        name: tensor.numel() for name, tensor in weights.items()
    }
    assert (record.num_biases, record.biases_kept) == (
        410,
        sum(int((each != 0).sum()) for each in biases),
    )
    assert record.epochs[-1].kept == record.kept


def test_labels_that_are_spread_over_all_classes_leave_a_higher_loss(small, tmp_path):
    plain, smooth = (
        train(small(method=Dense(), label_smoothing=share), folder=tmp_path) for share in (0.0, 0.9)
    )
    assert plain.epochs[-1].loss < smooth.epochs[-1].loss - 0.05


def test_a_short_gradient_moves_weights_by_little(small, tmp_path):
    plain, clipped = (
        train(small(method=Dense(), clip=clip), folder=tmp_path) for clip in (0.0, 1e-3)
    )
    assert plain.epochs[-1].loss < clipped.epochs[-1].loss - 0.1


def test_the_finished_network_is_sparse_ordinary_and_as_accurate_as_recorded(small, tmp_path):
    run = small(method=SPARSE)
    record = train(run, folder=tmp_path)
    assert 0.05 * record.total < record.kept < 0.95 * record.total
    model = LeNet300()
    model.load_state_dict(network(tmp_path, run), strict=True)
    data = load_data(run.data)
    assert accuracy(model, data.test, data.normalise, Accelerator()) == record.test
    assert accuracy(model, data.validation, data.normalise, Accelerator()) == record.validation


def test_the_gates_are_counted_at_the_start_and_at_every_epochs_end(small, tmp_path):
    record = train(small(method=SPARSE), folder=tmp_path)
    assert record.first_gates == tuple(
        record.total if place == 19 else 0 for place in range(32)
    )  # 0.6
    assert [sum(epoch.gates[16:]) for epoch in record.epochs] == [
        epoch.kept for epoch in record.epochs
    ]
    assert train(small(method=Dense()), folder=tmp_path).epochs[-1].gates == ()


def test_epochs_are_numbered_and_steps_are_counted(small, tmp_path):
    steps = Steps()
    record = train(small(epochs=3), folder=tmp_path, watch=steps)
    assert [epoch.epoch for epoch in record.epochs] == [1, 2, 3]
    assert steps.seen == list(range(1, 3 * 9 + 1))


def test_training_lowers_the_loss_and_finds_digits(small, tmp_path):
    record = train(small(epochs=3, method=Dense(), lr=0.1), folder=tmp_path)
    losses = [epoch.loss for epoch in record.epochs]
    assert losses == sorted(losses, reverse=True)
    assert record.test > 50


def test_a_run_that_has_ended_is_not_trained_again(small, tmp_path):
    run = small()
    train(run, folder=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    steps = Steps()
    train(run, folder=tmp_path, watch=steps)
    assert steps.seen == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


@pytest.mark.parametrize("method", [LearnedGates(), Dense()])
def test_a_run_that_has_ended_returns_the_record_it_returned_first(method, small, tmp_path):
    run = small(method=method)
    assert train(run, folder=tmp_path) == train(run, folder=tmp_path)


def test_the_same_run_twice_is_the_same_network_bit_for_bit(small, tmp_path):
    run = small(method=SAMPLED)
    records = [train(run, folder=tmp_path / name) for name in ("one", "two")]
    assert equal(network(tmp_path / "one", run), network(tmp_path / "two", run))
    assert records[0].epochs == records[1].epochs


def test_another_seed_is_another_network(small, tmp_path):
    first, second = small(), small(seed=1)
    train(first, folder=tmp_path)
    train(second, folder=tmp_path)
    assert not equal(network(tmp_path, first), network(tmp_path, second))


def test_a_loss_that_is_no_number_ends_the_run_without_a_result(small, tmp_path):
    run = small(lr=1e9)
    with pytest.raises(
        DivergedError, match=r"the loss became nan in epoch 1; lower lr \(now 1000000000.0\)"
    ):
        train(run, folder=tmp_path)
    assert not list(tmp_path.rglob("record.json"))
    assert not list(tmp_path.rglob("*.safetensors"))


class PoisonsAWeight(Dense):
    """Makes a weight infinite with the last step of an epoch, when no loss will show it."""

    def after_step(self, model, progress):
        if progress > 0.2:
            model.fc2.weight.data[0, 0] = float("inf")


class PoisonsAGate(LearnedGates):
    """Makes a gate NaN: its weight is then closed, and the loss is finite."""

    def after_step(self, model, progress):
        model.fc1.parametrizations.weight[0].gate.data[0, 0] = float("nan")


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        (PoisonsAWeight(), r"fc2\.weight became NaN or infinite in epoch 1; lower lr"),
        (PoisonsAGate(), r"the gates of fc1\.weight became NaN or infinite in epoch 1; lower lr"),
    ],
)
def test_a_weight_or_gate_that_is_no_number_ends_the_run_by_its_name(
    method, wanted, small, tmp_path
):
    with pytest.raises(DivergedError, match=wanted):
        train(small(method=method, batch_size=450), folder=tmp_path)
    assert not list(tmp_path.rglob("record.json"))
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"model": "lenet6"}, "unknown model 'lenet6'; did you mean 'lenet5'"),
        ({"data": "mnits"}, "unknown dataset 'mnits'; did you mean 'mnist'"),
        ({"data": "no/where"}, "no data folder at no/where"),
        ({"erase": 28}, "erase is the side of a square that is smaller than the image, got 28"),
        ({"batch_size": 901}, "batch_size is 901, but there are only 900 training images"),
        (
            {"method": LearnedGates(only=("conv1.*",))},
            "no weight matches.*fc1.weight, fc2.weight, fc3.weight",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_and_leaves_no_folder(change, wanted, small, tmp_path):
    with pytest.raises(ValueError, match=wanted):
        train(small(**change), folder=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_images_of_another_shape_are_refused(as_idx, tmp_path):
    for stem in ("train", "t10k"):
        (tmp_path / f"{stem}-images-idx3-ubyte").write_bytes(as_idx(torch.zeros(20, 8, 8)))
        (tmp_path / f"{stem}-labels-idx1-ubyte").write_bytes(as_idx(torch.zeros(20)))
    run = Run(model="lenet300", data=str(tmp_path), batch_size=4)
    with pytest.raises(
        ValueError, match=r"lenet300 takes images of shape \(1, 28, 28\), .* has \(1, 8, 8\)"
    ):
        train(run, folder=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_run_in_bf16_may_follow_one_in_fp32(small, tmp_path):
    runs = [small(precision=precision) for precision in ("fp32", "bf16")]
    records = [train(run, folder=tmp_path) for run in runs]
    first, second = (network(tmp_path, run) for run in runs)
    assert not equal(first, second)
    assert {tensor.dtype for tensor in second.values()} == {torch.float32}
    assert records[1].epochs[-1].loss == pytest.approx(records[0].epochs[-1].loss, rel=0.02)


def test_sampled_masks_report_what_they_keep_and_how_they_vary(small, tmp_path):
    epochs = train(small(method=SAMPLED), folder=tmp_path).epochs
    assert all(0 < epoch.keep < 1 for epoch in epochs)
    assert all(0 < epoch.variance <= 0.25 for epoch in epochs)


def test_thresholded_masks_do_not_vary(small, tmp_path):
    last = train(small(method=SPARSE), folder=tmp_path).epochs[-1]
    assert last.variance == 0
    assert last.keep == pytest.approx(last.kept / 266_200)


def test_gates_that_closed_in_the_first_epoch_have_flipped(small, tmp_path):
    first = train(small(method=SPARSE), folder=tmp_path).epochs[0]
    assert first.kept < 266_200  # all gates began open
    assert first.flipped == pytest.approx(1 - first.kept / 266_200)


def test_a_layer_that_closes_is_noted_once_by_name(small, tmp_path):
    record = train(small(epochs=3, method=CLOSING), folder=tmp_path)
    assert record.kept == 0
    assert [note.partition(" has closed")[0] for note in record.notes] == [
        f"every gate of fc{number}.weight" for number in (1, 2, 3)
    ]


def test_weights_without_gates_are_counted_as_kept(small, tmp_path):
    record = train(small(method=dataclasses.replace(CLOSING, only=("fc1.*",))), folder=tmp_path)
    assert record.kept == record.epochs[-1].kept == 30_000 + 1_000


def test_a_dense_run_keeps_every_weight(small, tmp_path):
    record = train(small(method=Dense()), folder=tmp_path)
    assert [epoch.kept for epoch in record.epochs] == [266_200, 266_200]
    assert record.rate == 1


def test_the_record_says_how_it_was_made(small, tmp_path):
    record = train(small(), folder=tmp_path, command="some words")
    assert record.command == "some words"
    assert record.run == small().to_json()
    assert record.machine["processes"] == 1
    assert record.versions["torch"] == torch.__version__
