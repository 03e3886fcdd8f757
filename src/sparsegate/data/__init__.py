"""Datasets by name, and readers for the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparsegate.registry import Registry

from .augment import Shift
from .dataset import Dataset, Normalise, Split
from .idx import read_idx_folder
from .mnist import mnist

DATASETS: Registry[Callable[[], Dataset]] = Registry("dataset", {"mnist": mnist})


def load_data(name: str) -> Dataset:
    """A registered dataset, or the one in a folder of idx files if `name` is a path.

    >>> load_data("mnist").image_shape
    (1, 28, 28)
    """
    is_path = name not in DATASETS and ("/" in name or "\\" in name or Path(name).exists())
    return read_idx_folder(Path(name)) if is_path else DATASETS[name]()


__all__ = ["DATASETS", "Dataset", "Normalise", "Shift", "Split", "load_data", "mnist", "read_idx_folder"]
