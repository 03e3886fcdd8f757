"""A residual network is trained on photographs, stopped, resumed and made sparse."""

import dataclasses
from functools import partial

import pytest
import torch
from safetensors.torch import load_file

from sparsegate.cli import main
from sparsegate.price import Penalty
from sparsegate_lab.data import IMAGENET, Fit, Flip, Jitter, RandomCrop, Shift, load_data
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Watcher, augments_of, normaliser_of, train

GATED = LearnedGates(penalty=Penalty(count=4.0), gate_lr=3000.0, ramp=0.0)
small = partial(
    Run, model="resnet20", stored_size=40, batch_size=11, epochs=2, crop=0.5, flip=True, jitter=0.2
)


class Stopped(Exception):  # noqa: N818
    """The power is cut."""


class Listener(Watcher):
    """Hears what was decoded and noted, and cuts the power after an epoch."""

    def __init__(self, cut=0):
        self.decodings, self.notes, self.cut = [], [], cut

    def decoded(self, done, total):
        self.decodings.append((done, total))

    def noted(self, note):
        self.notes.append(note)

    def measured(self, epoch):
        if epoch.epoch == self.cut:
            raise Stopped


def network(folder, run):
    return load_file(folder / run.name / "network.safetensors")


def test_a_run_on_photographs_is_the_same_after_a_cut_and_decodes_once(photographs, tmp_path):
    run, first, second = small(data=str(photographs), method=GATED), Listener(cut=1), Listener()
    with pytest.raises(Stopped):
        train(run, folder=tmp_path / "cut", watch=first, pack=False)
    resumed = train(run, folder=tmp_path / "cut", watch=second, pack=False)
    straight = train(run, folder=tmp_path / "straight", pack=False)
    assert first.decodings[-1] == (6, 6)
    assert second.decodings == []
    assert resumed.epochs == straight.epochs
    cut, whole = network(tmp_path / "cut", run), network(tmp_path / "straight", run)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in cut.items())
    assert 0 < straight.kept < straight.total
    assert straight.num_biases == 1376 + 2


def test_the_command_decodes_and_names_what_does_not_in_the_record_too(
    photographs, tmp_path, capsys
):
    words = [
        "train",
        "resnet20",
        "--data",
        str(photographs),
        "--epochs",
        "1",
        "--batch-size",
        "8",
        "--method",
        "dense",
    ]
    (photographs / "val" / "blue" / "01.png").write_bytes(b"no")
    assert main([*words, "--folder", str(tmp_path / "runs")]) == 2
    assert "val/blue/01.png (expected an image format that Pillow knows" in " ".join(
        capsys.readouterr().err.split()
    )
    assert (
        main([*words, "--folder", str(tmp_path / "runs"), "--bad-images", "skip", "--no-pack"]) == 0
    )
    assert "decoding 6 photographs, once" in capsys.readouterr().out
    assert not list(tmp_path.rglob("*.sg"))
    (note,) = Record.load(next(tmp_path.rglob("record.json"))).notes
    assert note.startswith("1 image does not decode and was left out: ")
    assert note.endswith("val/blue/01.png")


def test_remarks_on_the_data_are_shown_at_every_start_and_are_in_the_record_once(
    photographs, tmp_path
):
    (photographs / "train" / "lost.png").touch()
    run = small(data=str(photographs), method=Dense())
    for listener in (Listener(cut=1), Listener(cut=2)):
        with pytest.raises(Stopped):
            train(run, folder=tmp_path, watch=listener, pack=False)
        (note,) = listener.notes
        assert note.endswith(": train/lost.png")
    assert train(run, folder=tmp_path, pack=False).notes == (note,)


def test_digits_are_not_stretched_to_the_size_of_another_network(digits, tmp_path):
    with pytest.raises(
        ValueError, match=r"resnet20 takes images of shape \(3, 32, 32\), .* has \(1, 28, 28\)"
    ):
        train(small(data=str(digits)), folder=tmp_path)


def test_colours_of_imagenet_are_not_for_grey_images(digits, tmp_path):
    with pytest.raises(
        ValueError, match=r"normalise imagenet is for 3 colors, lenet300 takes images of \(1"
    ):
        train(Run(model="lenet300", data=str(digits), normalise="imagenet"), folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_runs_changes_follow_from_its_settings(photographs, monkeypatch):
    run = small(data=str(photographs), shift=4)
    assert augments_of(run) == (Shift(4), Flip(), RandomCrop((32, 32), 0.5), Jitter(0.2))
    assert augments_of(Run()) == (Shift(2),)
    data = load_data(run.data)
    assert normaliser_of(run, data) == Fit((32, 32), data.normalise)
    assert normaliser_of(dataclasses.replace(run, normalise="imagenet"), data) == Fit(
        (32, 32), IMAGENET
    )
    assert normaliser_of(run, data)(data.test.images).shape == (6, 3, 32, 32)
