"""Reads datasets that are tensors: a safetensors file, or what a function of the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sparsegate.named_object import named_object

from .dataset import Dataset, Split

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
