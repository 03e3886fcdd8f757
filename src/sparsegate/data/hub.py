"""Image datasets of the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .dataset import Dataset
from .gather import aside, gathered
from .photos import Source, Storing

PREFIX = "hub:"
TESTS = ("test", "validation", "valid", "val")  # the split that is the test set, the first that is there


def read_hub(name: str, storing: Storing | None = None) -> Dataset:
    """The image dataset `OWNER/NAME`, or `OWNER/NAME:CONFIGURATION`, or a local folder of parquet files.

    Its test split, or its validation split if it has no other, is the test set; validation images are taken from train
    as for folders.
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
        raise ValueError(f"{name} has the splits {', '.join(splits)}; wanted train and one of {', '.join(TESTS)}")
    train, test = (_source(splits[split], f"{name}/{split}") for split in ("train", tests[0]))
    order, num_train = aside(train.labels())
    return gathered(replace(train, rows=train.rows.select(order)), num_train, test, storing or Storing())


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
        """The class of each."""
        return list(self.rows[self.label])

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


def _source(rows: Any, title: str) -> HubSource:
    """The rows, with the one column of images and the one of classes found by their types."""
    kinds = {column: type(kind).__name__ for column, kind in rows.features.items()}
    images, labels = ([column for column in kinds if kinds[column] == kind] for kind in ("Image", "ClassLabel"))
    if not images or len(labels) != 1:
        raise ValueError(f"{title} has the columns {kinds}; wanted one of type Image and just one of type ClassLabel")
    files = rows.cast_column(images[0], type(rows.features[images[0]])(decode=False))
    return HubSource(title, files, images[0], labels[0])
