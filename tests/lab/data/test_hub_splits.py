"""Which split of a dataset of the hub is the test set, by a stand-in for the package datasets."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from sparsegate_lab.data import Storing, load_data

LABELLED, UNLABELLED = [0, 1, 0, 1], [-1, -1, -1, -1]


class ClassLabel:
    """A column of classes."""


Pictures = type(
    "Image", (), {"__init__": lambda self, decode=True: None}
)  # a column of images, known by its name


class Rows:
    """Images as bright as their numbers, with these classes."""

    def __init__(self, labels, places=None):
        self.labels, self.places = labels, list(range(len(labels))) if places is None else places
        self.features = {"image": Pictures(), "label": ClassLabel()}
        self._fingerprint = f"{labels} {self.places}"

    def cast_column(self, column, kind):
        return self

    def select(self, order):
        return Rows(self.labels, [self.places[place] for place in order])

    def __getitem__(self, key):
        if key == "label":
            return [self.labels[place] for place in self.places]
        file = io.BytesIO()
        Image.fromarray(np.full((9, 12, 3), 10 * self.places[key], np.uint8)).save(file, "PNG")
        return {"image": {"bytes": file.getvalue(), "path": None}}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a dataset of the hub that has the splits with these labels."""

    def loaded(**labels):
        splits = {split: Rows(each) for split, each in labels.items()}
        monkeypatch.setitem(
            sys.modules, "datasets", SimpleNamespace(load_dataset=lambda path, name: splits)
        )
        return load_data("hub:some/photos", Storing(size=8, cache=tmp_path))

    return loaded


def test_the_test_split_is_the_test_set_and_needs_no_note(load):
    data = load(train=[0, 1] * 11, validation=[0, 1], test=LABELLED)
    assert data.test.labels.tolist() == LABELLED
    assert data.notes == ()


@pytest.mark.parametrize(("test", "count"), [(UNLABELLED, 4), ([0, 1, -1, None], 2)])
def test_a_test_split_without_classes_is_passed_over_for_validation_and_that_is_noted(
    load, test, count
):
    data = load(train=[0, 1] * 11, validation=[0, 1], test=test)
    assert data.test.labels.tolist() == [0, 1]
    (note,) = data.notes
    assert (
        note
        == f"{count} of 4 images of some/photos/test have no class, so some/photos/validation is the test set"
    )


def test_a_set_of_which_no_test_split_has_classes_is_refused(load):
    with pytest.raises(
        ValueError,
        match=r"4 of 4 images of some/photos/test have no class; expected one of test, val",
    ):
        load(train=[0, 1] * 11, test=UNLABELLED)


def test_images_to_train_on_that_have_no_class_are_refused(load):
    with pytest.raises(
        ValueError,
        match=r"1 of 3 images of some/photos/train have no class; expected a class for each",
    ):
        load(train=[0, 1, -1], test=LABELLED)
