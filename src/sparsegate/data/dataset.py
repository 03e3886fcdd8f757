"""Labelled images in three splits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

NUM_VALIDATION = 5_000  # the last training images; recipes are chosen on them


@dataclass(frozen=True, eq=False)
class Split:
    """Images as bytes, with their labels."""

    images: UInt8[Tensor, "image channel height width"]
    labels: Int64[Tensor, " image"]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> Split:
        """The images from `start` to `stop`."""
        return Split(self.images[start:stop], self.labels[start:stop])

    def to(self, device: torch.device) -> Split:
        """The same images on a device."""
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a model is trained on, chosen by, and reported on."""

    train: Split
    validation: Split
    test: Split

    @classmethod
    def divided(cls, train: Split, test: Split) -> Dataset:
        """Sets the last 5,000 training images aside for validation; of fewer than 10,000, the last tenth."""
        if len(train) < 2:
            raise ValueError(f"{len(train)} training image is too few: one is set aside for validation")
        aside = NUM_VALIDATION if len(train) >= 2 * NUM_VALIDATION else max(1, len(train) // 10)
        cut = len(train) - aside
        return cls(train.part(0, cut), train.part(cut, len(train)), test)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def num_classes(self) -> int:
        """One more than the largest label of any split."""
        return 1 + max(int(split.labels.max()) for split in (self.train, self.validation, self.test))

    @cached_property
    def normalise(self) -> Normalise:
        """Makes the training images' bytes zero in the mean, with a standard deviation of one."""
        # A histogram is exact and needs no copy of all images in float.
        levels = torch.bincount(self.train.images.flatten(), minlength=256).double() / self.train.images.numel()
        value = torch.arange(256, dtype=torch.float64)
        mean = float((levels * value).sum())
        spread = float((levels * (value - mean) ** 2).sum().sqrt())
        return Normalise(mean, spread or 1.0)


@dataclass(frozen=True)
class Normalise:
    """Subtracts a mean and divides by a spread."""

    mean: float
    spread: float

    def __call__(self, images: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Bytes as numbers around zero."""
        return images.float().sub_(self.mean).div_(self.spread)
