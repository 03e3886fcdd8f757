"""Reads CIFAR-10 and CIFAR-100 as their authors pack them: binary files, or pickles of Python."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
# What a pickle of numpy arrays asks for; nothing else is given to it.
ALLOWED = {("_codecs", "encode"), ("numpy", "ndarray"), ("numpy", "dtype")} | {
    (f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")
}


@dataclass(frozen=True)
class Layout:
    """One way in which the datasets are packed."""

    train: tuple[str, ...]
    test: str
    num_labels: int
    """Labels before an image in a binary file; the last one counts. 0: pickles."""
    num_classes: int

    def lacking(self, folder: Path) -> list[str]:
        """The files that a folder lacks."""
        return [name for name in (*self.train, self.test) if not (folder / name).is_file()]


LAYOUTS = (
    Layout(tuple(f"{name}.bin" for name in BATCHES), "test_batch.bin", 1, 10),
    Layout(
        ("train.bin",), "test.bin", 2, 100
    ),  # CIFAR-100: the coarse label stands before the fine one
    Layout(BATCHES, "test_batch", 0, 10),
    Layout(("train",), "test", 0, 100),
)


def find_cifar(folder: Path) -> Callable[[], Dataset] | None:
    """What reads the CIFAR files in a folder, or in the one that their archives unpack to; none if there are none."""
    found = [(place, layout) for place in (folder / name for name in FOLDERS) for layout in LAYOUTS]
    for place, layout in found:
        if not layout.lacking(place):
            return lambda place=place, layout=layout: _read(place, layout)  # type: ignore[misc]
    for place, layout in found:
        lacking = layout.lacking(place)
        if layout.num_classes == 10 and len(lacking) <= len(BATCHES):
            raise ValueError(
                f"{place} has files of CIFAR-10, but lacks {', '.join(lacking)}; get the archive again"
            )
    return None


def _read(folder: Path, layout: Layout) -> Dataset:
    parts = [_split(folder / name, layout) for name in layout.train]
    whole = Split(
        torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
    )
    return Dataset.divided(whole, _split(folder / layout.test, layout))


def _split(path: Path, layout: Layout) -> Split:
    images, labels = _rows(path, layout.num_labels) if layout.num_labels else _unpickled(path)
    if strange := [label for label in labels.tolist() if not 0 <= label < layout.num_classes]:
        raise ValueError(
            f"{path} is damaged: a label is {strange[0]}, of {layout.num_classes} classes; get it again"
        )
    return Split(
        torch.from_numpy(images.reshape(-1, 3, 32, 32).copy()),
        torch.from_numpy(labels.astype(np.int64)),
    )


def _rows(path: Path, num_labels: int) -> tuple[Any, Any]:
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    if len(raw) == 0 or len(raw) % (num_labels + PIXELS):
        raise ValueError(
            f"{path} is truncated or damaged: {len(raw)} bytes are not whole images of {num_labels + PIXELS}; "
            "get the file again"
        )
    rows = raw.reshape(-1, num_labels + PIXELS)
    return rows[:, num_labels:], rows[:, num_labels - 1]


def _unpickled(path: Path) -> tuple[Any, Any]:
    try:
        value = _Plain(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        images = value[b"data"]
        labels = np.asarray(value[b"fine_labels"] if b"fine_labels" in value else value[b"labels"])
        fits = (
            images.dtype == np.uint8
            and images.shape == (len(labels), PIXELS)
            and labels.dtype.kind == "i"
        )
    except Exception as error:  # bytes that mean nothing raise whatever they come upon
        raise ValueError(
            f"{path} is not a batch of CIFAR, or is damaged ({error}); get the file again"
        ) from error
    if not fits:
        raise ValueError(
            f"{path} is not a batch of CIFAR: its images are {images.dtype} of shape {images.shape}"
        )
    return images, labels


class _Plain(pickle.Unpickler):
    """Reads arrays, lists and names, and calls nothing that a file could bring along."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which no batch of CIFAR needs"
            )
        return super().find_class(module, name)
