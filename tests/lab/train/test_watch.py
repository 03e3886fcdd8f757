"""Watchers see every moment of a run, and TensorBoard's curves are the record's."""

import inspect

import pytest

from sparsegate.cli import main
from sparsegate_lab.record import Record
from sparsegate_lab.train import DivergedError, TensorBoard, Watcher, Watchers, train


def moments(kind):
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and name[0] != "_"
    }


class Listener(Watcher):
    """Remembers the names of the moments it saw."""

    def __init__(self):
        self.heard = []

    def decoded(self, done, total):
        self.heard.append(("decoded", done, total))

    def computed(self, done, total):
        self.heard.append(("computed", done, total))

    def began(self, run, folder, step, steps, num_weights):
        self.heard.append(("began", step, steps, num_weights))

    def stepped(self, step):
        self.heard.append(("stepped", step))

    def measured(self, epoch):
        self.heard.append(("measured", epoch.epoch))

    def noted(self, note):
        self.heard.append(("noted", note))

    def ended(self, record):
        self.heard.append(("ended", record.test))

    def closed(self):
        self.heard.append(("closed",))


def test_several_watchers_have_every_moment_that_one_has():
    one, several = moments(Watcher), moments(Watchers)
    assert one.keys() == several.keys() == moments(Listener).keys()
    assert all(
        list(inspect.signature(one[name]).parameters)
        == list(inspect.signature(several[name]).parameters)
        for name in one
    )


def test_each_of_several_watchers_sees_the_whole_run(small, tmp_path):
    first, second = Listener(), Listener()
    record = train(small(), folder=tmp_path, watch=Watchers(first, second))
    epochs = [
        [*(("stepped", 9 * number + step) for step in range(1, 10)), ("measured", number + 1)]
        for number in (0, 1)
    ]
    noted = [moment for moment in first.heard if moment[0] == "noted"]
    assert len(noted) == 1  # so short a training closes no gate
    assert [moment for moment in first.heard if moment not in noted] == [
        ("began", 0, 18, 266_200),
        *epochs[0],
        *epochs[1],
        ("ended", record.test),
        ("closed",),
    ]
    assert second.heard == first.heard


def test_watchers_are_closed_when_a_run_fails(small, tmp_path):
    listener = Listener()
    with pytest.raises(DivergedError):
        train(small(lr=1e9), folder=tmp_path, watch=Watchers(listener))
    assert listener.heard[-1] == ("closed",)
    assert not [moment for moment in listener.heard if moment[0] in ("measured", "ended")]


def test_a_plain_watcher_may_ignore_everything(small, tmp_path):
    assert train(small(), folder=tmp_path, watch=Watcher()).epochs


def test_the_command_writes_the_records_curves_for_tensorboard(digits, tmp_path, capsys):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    words = ["train", "lenet300", "--data", str(digits), "--epochs", "2", "--batch-size", "100"]
    assert main([*words, "--folder", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    record = Record.load(folder / "record.json")
    curves = events.EventAccumulator(str(folder / "tensorboard")).Reload()
    for name in ("loss", "validation", "kept", "undecided", "flipped", "variance"):
        points = [(point.step, point.value) for point in curves.Scalars(name)]
        assert points == [
            (epoch.epoch, pytest.approx(getattr(epoch, name))) for epoch in record.epochs
        ]
    assert curves.Scalars("test")[0].value == pytest.approx(record.test)


def test_tensorboard_that_never_began_can_be_closed():
    TensorBoard().closed()
