"""Reads image datasets of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .dataset import Dataset
from .photo_dataset import photo_dataset, validation_last
from .photos import PhotoSource, Storing

PREFIX = "hub:"
TESTS = ("test", "validation", "valid", "val")  # splits for the test set, the first one that exists


def read_hub(name: str, storing: Storing | None = None) -> Dataset:
    """The image dataset `OWNER/NAME` or `OWNER/NAME:CONFIGURATION`, or a folder of parquet files.

    The test set is its test split, or its validation split if the test split is missing or has
    images without a class, as ImageNet's has. Some images of train are for validation.
    """
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            "datasets of the hub need the package datasets, which is not installed; "
            "pip install 'sparsegate[hub]'"
        ) from error
    path, _, configuration = name.partition(":")
    splits = datasets.load_dataset(path, configuration or None)
    tests = [split for split in TESTS if split in splits]
    if "train" not in splits or not tests:
        raise ValueError(
            f"{name}: expected the split train and one of {', '.join(TESTS)}, got "
            f"{', '.join(splits)}"
        )
    train = _source(splits["train"], f"{name}/train")
    if lack := _lack(train):
        raise ValueError(f"{lack}; expected a class for each training image")
    test, notes = _labelled(_source(splits[split], f"{name}/{split}") for split in tests)
    order, num_train = validation_last(train.labels())
    return photo_dataset(
        replace(train, rows=train.rows.select(order)), num_train, test, storing or Storing(), notes
    )


@dataclass(frozen=True)
class HubSource(PhotoSource):
    """Rows of a dataset, with their classes."""

    title: str
    rows: Any
    image: str
    """The column of images, as files."""
    label: str
    """The column of classes."""

    def labels(self) -> list[int]:
        """The class of each image; -1 for none, as on the hub."""
        return [-1 if label is None else label for label in self.rows[self.label]]

    def name(self, index: int) -> str:
        """The split and the row."""
        return f"{self.title}[{index}]"

    def read(self, index: int) -> bytes:
        """The image's file, from the row or from the path in the row."""
        image = self.rows[index][self.image]
        return image["bytes"] or Path(image["path"]).read_bytes()

    def key(self) -> str:
        """The fingerprint of the dataset."""
        return f"{self.title} {self.rows._fingerprint}"


def _labelled(tests: Iterable[HubSource]) -> tuple[HubSource, tuple[str, ...]]:
    """The first split whose images all have a class, and notes on the splits before it."""
    lacks: list[str] = []
    for test in tests:
        if not (lack := _lack(test)):
            return test, tuple(f"{each}, so {test.title} is the test set" for each in lacks)
        lacks.append(lack)
    raise ValueError(
        f"{'; '.join(lacks)}; expected one of {', '.join(TESTS)} with a class for each image, "
        "as the test set"
    )


def _lack(source: HubSource) -> str:
    """A message on images without a class; empty if all have one."""
    labels = source.labels()
    count = sum(label < 0 for label in labels)
    return f"{count:,} of {len(labels):,} images of {source.title} have no class" if count else ""


def _source(rows: Any, title: str) -> HubSource:
    """The rows, with the columns of images and of classes, which are found by their types."""
    kinds = {column: type(kind).__name__ for column, kind in rows.features.items()}
    images, labels = (
        [column for column in kinds if kinds[column] == kind] for kind in ("Image", "ClassLabel")
    )
    if not images or len(labels) != 1:
        raise ValueError(
            f"{title}: expected columns of the types Image and ClassLabel, one of each, got {kinds}"
        )
    files = rows.cast_column(images[0], type(rows.features[images[0]])(decode=False))
    return HubSource(title, files, images[0], labels[0])
