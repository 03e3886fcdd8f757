"""Reads CIFAR-10 and CIFAR-100 as their authors pack them: binary files, or pickles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .cifar_pickle import as_array, read_pickle
from .dataset import Dataset, Split

PIXELS = 3 * 32 * 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
FOLDERS = (
    "",
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    "cifar-100-binary",
    "cifar-100-python",
)


@dataclass(frozen=True)
class CifarLayout:
    """One of the ways in which the datasets are packed."""

    train: tuple[str, ...]
    test: str
    num_labels: int
    """Labels before each image of a binary file, of which the last one counts; 0 for pickles."""
    num_classes: int

    def missing(self, folder: Path) -> list[str]:
        """The files that a folder does not have."""
        return [name for name in (*self.train, self.test) if not (folder / name).is_file()]


LAYOUTS = (
    CifarLayout(tuple(f"{name}.bin" for name in BATCHES), "test_batch.bin", 1, 10),
    CifarLayout(("train.bin",), "test.bin", 2, 100),  # CIFAR-100: coarse label, fine label, image
    CifarLayout(BATCHES, "test_batch", 0, 10),
    CifarLayout(("train",), "test", 0, 100),
)


def find_cifar(folder: Path) -> Callable[[], Dataset] | None:
    """A function that reads the CIFAR files in a folder, or None if it has none.

    The files may also lie in the folder that their archive unpacks to.
    """
    candidates = [(folder / name, layout) for name in FOLDERS for layout in LAYOUTS]
    for inside, layout in candidates:
        if not layout.missing(inside):
            return partial(_read, inside, layout)
    for inside, layout in candidates:
        missing = layout.missing(inside)
        if layout.num_classes == 10 and len(missing) <= len(BATCHES):
            raise ValueError(
                f"{inside} has files of CIFAR-10, but lacks {', '.join(missing)}; "
                "get the archive again"
            )
    return None


def _read(folder: Path, layout: CifarLayout) -> Dataset:
    parts = [_read_split(folder / name, layout) for name in layout.train]
    train = Split(
        torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
    )
    return Dataset.divided(train, _read_split(folder / layout.test, layout))


def _read_split(path: Path, layout: CifarLayout) -> Split:
    images, labels = (
        _read_binary(path, layout.num_labels) if layout.num_labels else _read_pickle(path)
    )
    if wrong := [label for label in labels.tolist() if not 0 <= label < layout.num_classes]:
        raise ValueError(
            f"{path} is damaged: expected labels from 0 to {layout.num_classes - 1}, "
            f"got {wrong[0]}; get the file again"
        )
    return Split(
        torch.from_numpy(images.reshape(-1, 3, 32, 32).copy()),
        torch.from_numpy(labels.astype(np.int64)),
    )


def _read_binary(path: Path, num_labels: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    content = np.frombuffer(path.read_bytes(), np.uint8)
    bytes_per_image = num_labels + PIXELS
    if len(content) == 0 or len(content) % bytes_per_image:
        raise ValueError(
            f"{path} is truncated or damaged: expected a multiple of {bytes_per_image} bytes, "
            f"got {len(content)}; get the file again"
        )
    rows = content.reshape(-1, bytes_per_image)
    return rows[:, num_labels:], rows[:, num_labels - 1]


def _read_pickle(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        value = read_pickle(path.read_bytes())
        images = as_array(value[b"data"])
        labels = _labels(value[b"fine_labels"] if b"fine_labels" in value else value[b"labels"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())  # a damaged file may name anything
        raise ValueError(
            f"{path} is not a batch of CIFAR, or is damaged ({reason}); get the file again"
        ) from error
    if images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
        raise ValueError(
            f"{path} is not a batch of CIFAR: its images are {images.dtype} of shape "
            f"{images.shape}, expected uint8 of shape {(len(labels), PIXELS)}"
        )
    return images, labels


def _labels(value: Any) -> NDArray[np.int64]:
    """Labels in a list, as their authors store them, or in an array."""
    if not isinstance(value, list):
        return as_array(value).astype(np.int64).reshape(-1)
    if not all(type(label) is int for label in value):
        raise ValueError("a label is not an integer")
    return np.array(value, np.int64)
