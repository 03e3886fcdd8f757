"""Runs with a target, a teacher or an average, by the loop."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file

from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Teacher, Watcher, train
from sparsegate_lab.train.network import distil_of

KEEP = LearnedGates(target=Target(keep=0.02))


class PowerCutError(Exception):
    """What stops a run in these tests."""


class StopsAt(Watcher):
    """Stops a run after one of its epochs."""

    def __init__(self, epoch):
        self.epoch = epoch

    def measured(self, epoch):
        if epoch.epoch == self.epoch:
            raise PowerCutError


def network(folder, record):
    return load_file(folder / record.name / "network.safetensors")


def stopped(run, folder, epochs):
    """The record of a run that was stopped after these epochs."""
    for epoch in epochs:
        with pytest.raises(PowerCutError):
            train(run, folder=folder, watch=StopsAt(epoch))
    return train(run, folder=folder)


def assert_equal(one, other, folders):
    first, second = (
        network(folder, record) for folder, record in zip(folders, (one, other), strict=True)
    )
    assert all((first[name] == second[name]).all() for name in first)
    assert (one.epochs, one.notes) == (other.epochs, other.notes)


@pytest.fixture(scope="module")
def teacher(small, tmp_path_factory):
    """The folder of a dense run."""
    folder = tmp_path_factory.mktemp("teacher")
    return folder / train(small(method=Dense()), folder=folder).name


def test_everything_together_ends_on_its_target_and_resumes_bit_for_bit(small, teacher, tmp_path):
    run = small(epochs=5, method=KEEP, distil=Teacher(str(teacher), temperature=2.0), average=0.9)
    record = train(run, folder=tmp_path / "one")
    assert record.kept == round(0.02 * record.total)
    assert record.notes[-2].startswith(
        "keep=0.02: 5,324 of 266,200 weights are left (keep 0.02000); the price was "
    )
    assert record.validation > 25  # a tenth by chance; 45 steps
    again = stopped(run, tmp_path / "two", (1, 3, 4, 5))
    assert_equal(record, again, (tmp_path / "one", tmp_path / "two"))


def test_a_drop_trains_the_dense_network_first(small, tmp_path):
    run = small(epochs=3, method=LearnedGates(target=Target(max_drop=40.0)))
    record = train(run, folder=tmp_path)
    (dense,) = tmp_path.glob("lenet300-dense-*/record.json")
    baseline = record.run["method"]["target"]["baseline"]
    assert f'"validation": {baseline}' in dense.read_text()
    given = dataclasses.replace(
        run, method=LearnedGates(target=Target(max_drop=40.0, baseline=baseline))
    )
    assert record.name == given.name
    assert record.kept < 0.5 * record.total
    assert train(run, folder=tmp_path) == record


class Hears(Watcher):
    """Remembers what was noted and after how many epochs."""

    def __init__(self):
        self.epochs, self.heard = 0, []

    def measured(self, epoch):
        self.epochs = epoch.epoch

    def noted(self, note):
        self.heard.append((self.epochs, note))


def test_a_drop_out_of_reach_is_said_while_training_goes_on_with_the_nearest(small, tmp_path):
    hears = Hears()
    unreachable = LearnedGates(target=Target(max_drop=0.1, baseline=99.9))
    record = train(small(epochs=4, method=unreachable), folder=tmp_path, watch=hears)
    (early, first), (late, last) = hears.heard
    assert (early, late) == (1, 3)  # `reach` is half-way
    assert "max_drop=0.1 below 99.9 % is out of reach so far" in first
    nearest = f"the nearest that this training reached is max_drop={99.9 - record.validation:.2f}"
    assert nearest in last
    assert set(record.notes) > {first, last}


@pytest.mark.slow
def test_a_file_has_at_most_the_bytes_asked_for(small, tmp_path):
    record = train(small(epochs=3, method=LearnedGates(target=Target(bytes=6000))), folder=tmp_path)
    assert 5800 < (tmp_path / record.name / "network.sg").stat().st_size <= 6000


def test_the_teacher_s_content_is_in_the_name_and_its_word_counts(small, teacher, tmp_path):
    alone, taught = small(), small(distil=Teacher(str(teacher)))
    one, other = (train(run, folder=tmp_path) for run in (alone, taught))
    content = other.run["distil"]["content"]
    assert len(content) == 16
    assert one.epochs[0].loss != other.epochs[0].loss
    assert (
        other.name
        == dataclasses.replace(taught, distil=Teacher(str(teacher), content=content)).name
    )
    with pytest.raises(ValueError, match="another teacher"):
        train(small(distil=Teacher(str(teacher), content="0" * 16)), folder=tmp_path)
    with pytest.raises(ValueError, match="no finished run"):
        train(small(distil=Teacher(str(tmp_path / "nowhere"))), folder=tmp_path)


def test_several_teachers_are_one_with_their_mean_logits(small, teacher, tmp_path):
    second = tmp_path / train(small(method=Dense(), seed=1), folder=tmp_path).name
    names, images = (f"{teacher}, {second}", str(teacher), str(second)), torch.randn(3, 1, 28, 28)
    teachers = [distil_of(small(distil=Teacher(each)), 10, torch.device("cpu")) for each in names]
    both, one, other = (each.logits(images) for each in teachers)
    torch.testing.assert_close(both, (one + other) / 2)
    record = train(small(distil=Teacher(names[0])), folder=tmp_path)
    assert record.run["distil"]["content"] not in [
        Teacher(each).hash_of_content() for each in names[1:]
    ]
    with pytest.raises(ValueError, match=r"no finished run in .*nowhere"):
        train(small(distil=Teacher(f"{teacher},{tmp_path / 'nowhere'}")), folder=tmp_path)


def test_an_average_changes_the_network_and_not_the_training(small, tmp_path):
    plain, averaged = (
        train(small(epochs=4, method=KEEP, average=each), folder=tmp_path) for each in (None, 1.0)
    )
    assert [epoch.loss for epoch in plain.epochs] == [epoch.loss for epoch in averaged.epochs]
    one, other = network(tmp_path, plain), network(tmp_path, averaged)
    assert ((one["fc1.weight"] == 0) == (other["fc1.weight"] == 0)).all()
    assert (one["fc1.weight"] != other["fc1.weight"]).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"normalise": "imagenet"},
            "the teacher in .* has normalise data, this run imagenet; both must see the same",
        ),
        (
            {"model": "resnet20"},
            r"has images of shape \(1, 28, 28\), this run \(3, 32, 32\); "
            "both must see the same images",
        ),
        (
            {},
            "the teacher in .* does not fit .*, which has 3 classes: "
            "a teacher must have learned the same ones",
        ),
    ],
)
def test_a_teacher_that_sees_other_images_or_classes_is_refused(changes, message, small, teacher):
    with pytest.raises(ValueError, match=message):
        distil_of(small(distil=Teacher(str(teacher)), **changes), 3, torch.device("cpu"))
