"""Image datasets of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .dataset import Dataset
from .photo_dataset import aside, gathered
from .photos import Source, Storing

PREFIX = "hub:"
TESTS = (
    "test",
    "validation",
    "valid",
    "val",
)  # the split that is the test set, the first that is there


def read_hub(name: str, storing: Storing | None = None) -> Dataset:
    """The image dataset `OWNER/NAME`, or `OWNER/NAME:CONFIGURATION`, or a local folder of parquet files.

    Its test split is the test set, or its validation split if it has no other or the other has images without a class,
    as that of ImageNet has; validation images are taken from train as for folders.
    """
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            "data of the hub needs the package datasets, which is not installed; pip install 'sparsegate[hub]'"
        ) from error
    path, _, configuration = name.partition(":")
    splits = datasets.load_dataset(path, configuration or None)
    tests = [split for split in TESTS if split in splits]
    if "train" not in splits or not tests:
        raise ValueError(
            f"{name} has the splits {', '.join(splits)}; wanted train and one of {', '.join(TESTS)}"
        )
    train = _source(splits["train"], f"{name}/train")
    if lack := _lack(train):
        raise ValueError(f"{lack}; wanted one for each, to train on")
    test, notes = _labelled(_source(splits[split], f"{name}/{split}") for split in tests)
    order, num_train = aside(train.labels())
    return gathered(
        replace(train, rows=train.rows.select(order)), num_train, test, storing or Storing(), notes
    )


@dataclass(frozen=True)
class HubSource(Source):
    """Rows of a dataset, with their classes."""

    title: str
    rows: Any
    image: str
    """The column of images, as files."""
    label: str
    """The column of classes."""

    def labels(self) -> list[int]:
        """The class of each; -1 for none, as the hub writes it."""
        return [-1 if label is None else label for label in self.rows[self.label]]

    def name(self, place: int) -> str:
        """The split and the row."""
        return f"{self.title}[{place}]"

    def read(self, place: int) -> bytes:
        """The image's file, from the row or from where the row says."""
        image = self.rows[place][self.image]
        return image["bytes"] or Path(image["path"]).read_bytes()

    def key(self) -> str:
        """The fingerprint by which the package itself tells datasets apart."""
        return f"{self.title} {self.rows._fingerprint}"


def _labelled(tests: Iterable[HubSource]) -> tuple[HubSource, tuple[str, ...]]:
    """The first split whose images all have a class, and what is to be said of those before it."""
    lacks: list[str] = []
    for test in tests:
        if not (lack := _lack(test)):
            return test, tuple(f"{each}, so {test.title} is the test set" for each in lacks)
        lacks.append(lack)
    raise ValueError(
        f"{'; '.join(lacks)}; wanted one of {', '.join(TESTS)} with a class for each, as the test set"
    )


def _lack(source: HubSource) -> str:
    """How many images have no class, in words; nothing if all have one."""
    labels = source.labels()
    count = sum(label < 0 for label in labels)
    return f"{count:,} of {len(labels):,} images of {source.title} have no class" if count else ""


def _source(rows: Any, title: str) -> HubSource:
    """The rows, with the one column of images and the one of classes found by their types."""
    kinds = {column: type(kind).__name__ for column, kind in rows.features.items()}
    images, labels = (
        [column for column in kinds if kinds[column] == kind] for kind in ("Image", "ClassLabel")
    )
    if not images or len(labels) != 1:
        raise ValueError(
            f"{title} has the columns {kinds}; wanted one of type Image and just one of type ClassLabel"
        )
    files = rows.cast_column(images[0], type(rows.features[images[0]])(decode=False))
    return HubSource(title, files, images[0], labels[0])
