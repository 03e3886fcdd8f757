"""Loads a dataset by name or path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sparsegate.named_object import is_object_name, named_object
from sparsegate_runtime.registry import Registry

from .cifar import find_cifar
from .dataset import Dataset, Split
from .folder import is_image_folder, read_image_folder
from .hub import PREFIX, read_hub
from .idx import read_idx_folder
from .mnist import mnist
from .photos import Storing

SHOWN = 5  # classes in a message
BY_FOLDER = ("cifar10", "cifar100", "imagenette", "imagenet")


def _read_named_folder(name: str, storing: Storing) -> Dataset:
    """The dataset in a folder of this name under $SPARSEGATE_DATA, or under `data`."""
    folder = Path(os.environ.get("SPARSEGATE_DATA") or "data") / name
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {folder}; put {name} there, set SPARSEGATE_DATA to the folder "
            "that has it, or pass its path: --data PATH"
        )
    return _read_folder(folder, storing)


def _read_folder(folder: Path, storing: Storing) -> Dataset:
    """The dataset in a folder of photographs, of CIFAR's files or of idx files."""
    if not folder.is_dir():
        what = (
            "it is a file; pass the folder that contains it"
            if folder.exists()
            else "there is no such folder"
        )
        raise ValueError(
            f"no data folder at {folder}: {what}; expected one with photographs, the files of "
            "CIFAR or idx files"
        )
    if is_image_folder(folder):
        return read_image_folder(folder, storing)
    if cifar := find_cifar(folder):
        return cifar()
    if not any(folder.glob("*-ubyte*")):
        raise ValueError(
            f"{folder} has no known data: expected train and val with a folder of photographs for "
            "each class, the files of CIFAR-10 or CIFAR-100, or idx files such as "
            "train-images-idx3-ubyte"
        )
    return read_idx_folder(folder)


DATASETS: Registry[Callable[[Storing], Dataset]] = Registry(
    "dataset",
    {"mnist": lambda _: mnist(), **{name: partial(_read_named_folder, name) for name in BY_FOLDER}},
)
"""MNIST is bundled; the others are read from a folder of the user."""


def load_data(name: str, storing: Storing | None = None) -> Dataset:
    """A registered dataset, the one in a folder if `name` is a path, or one of the hub: `hub:NAME`.

    >>> load_data("mnist").image_shape
    (1, 28, 28)

    A folder has `train` and `val` with a folder of photographs per class, or the files of CIFAR, or
    idx files. A safetensors file, or the dictionary that a function `module:function` gives, has
    the tensors `train_images`, `train_labels`, `test_images` and `test_labels`.
    `storing` says how photographs are cached.

    Raises ValueError if a test label is larger than every label of training: the network would
    never see that class. A class below that without a training image is a note of the dataset.
    """
    storing = storing or Storing()
    if name.startswith(PREFIX):
        return _checked(read_hub(name.removeprefix(PREFIX), storing), name)
    if is_object_name(name):
        return _checked(own_dataset(name), name)
    if name.endswith(ENDING) and Path(name).is_file():
        return _checked(read_tensor_file(Path(name)), name)
    is_path = name not in DATASETS and ("/" in name or "\\" in name or Path(name).exists())
    data = _read_folder(Path(name), storing) if is_path else DATASETS[name](storing)
    return _checked(data, name)


def _checked(data: Dataset, name: str) -> Dataset:
    labels = torch.cat([data.train.labels, data.validation.labels])
    largest, num_tests = int(labels.max()), len(data.test)
    if strange := int((data.test.labels > largest).sum()):
        raise ValueError(
            f"{name}: expected test labels from 0 to {largest}, as in training, got "
            f"{int(data.test.labels.max())} ({strange:,} of {num_tests:,} test images have such a "
            "label); correct the labels, or add training images of these classes"
        )
    count = torch.bincount(labels, minlength=data.num_classes)
    if not (empty := (count == 0).nonzero().flatten().tolist()):
        return data
    classes = ", ".join(map(str, empty[:SHOWN])) + (" ..." if len(empty) > SHOWN else "")
    note = (
        f"{len(empty):,} of {data.num_classes:,} classes have no training image: {classes}; "
        f"the largest label, {largest}, has {int(count[largest]):,}"
    )
    return replace(data, notes=(*data.notes, note))


ENDING = ".safetensors"
NAMES = ("train_images", "train_labels", "test_images", "test_labels")
WANTED = f"expected the tensors {', '.join(NAMES)}"


def read_tensor_file(path: Path) -> Dataset:
    """The dataset in a safetensors file."""
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return tensor_dataset(tensors, str(path))


def own_dataset(name: str) -> Dataset:
    """The dataset that `module:function` gives: a `Dataset`, or a dictionary of tensors."""
    function = named_object(name)
    given = function() if callable(function) else function
    return given if isinstance(given, Dataset) else tensor_dataset(given, name)


def tensor_dataset(tensors: Any, name: str) -> Dataset:
    """A dataset of images in bytes and whole labels, by name; errors name where they come from."""
    if not isinstance(tensors, Mapping) or sorted(tensors) != sorted(NAMES):
        got = sorted(map(str, tensors)) if isinstance(tensors, Mapping) else type(tensors).__name__
        raise ValueError(f"{name}: {WANTED}, got {got}")
    splits = (_split(tensors, part, name) for part in ("train", "test"))
    train, test = splits
    if train.images.shape[1:] != test.images.shape[1:]:
        raise ValueError(
            f"{name}: training images have the shape {tuple(train.images.shape[1:])} and test "
            f"images {tuple(test.images.shape[1:])}; expected the same"
        )
    return Dataset.divided(train, test)


def _split(tensors: Mapping[str, Any], part: str, name: str) -> Split:
    images, labels = (torch.as_tensor(tensors[f"{part}_{what}"]) for what in ("images", "labels"))
    if images.dtype != torch.uint8 or images.ndim not in (3, 4) or not images.numel():
        raise ValueError(
            f"{name}: expected {part}_images of uint8 and of shape (image, height, width) or "
            f"(image, channel, height, width), got {images.dtype} of {tuple(images.shape)}; scale "
            "other numbers to bytes, such as (255 * x).byte()"
        )
    _check_labels(labels, len(images), f"{name}: expected {part}_labels")
    return Split(images[:, None] if images.ndim == 3 else images, labels.long())


def _check_labels(labels: Tensor, count: int, expected: str) -> None:
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    if not whole or labels.shape != (count,) or (count and int(labels.min()) < 0):
        raise ValueError(
            f"{expected} with a whole number from 0 for each of {count:,} images, got "
            f"{labels.dtype} of {tuple(labels.shape)}"
        )
