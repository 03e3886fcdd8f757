"""Datasets: labeled images in three splits."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int64, Num, UInt8
from torch import Tensor

from sparsegate.export import Normalise

NUM_VALIDATION = 5_000  # the last training images
MAX_SAMPLED = 100  # images of a split that the checksum is taken from
MAX_COUNTED = 2**30  # bytes that mean and spread are computed from; larger sets are sampled evenly


@dataclass(frozen=True, eq=False)
class Split:
    """Images as bytes, possibly mapped from a file, and their labels.

    Behind a front, which is frozen, its outputs in fp16 instead of images.
    """

    images: Num[Tensor, "image *shape"]
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
    """Images for training, for choosing recipes and for reporting results."""

    train: Split
    validation: Split
    test: Split
    resizable: bool = False
    """Whether images may be resized for a network: true for photographs, false for digits."""
    notes: tuple[str, ...] = ()
    """What readers of results should know, such as images that were skipped."""
    class_names: tuple[str, ...] = ()
    """What the classes are called; empty if unknown, then they are numbers."""

    @classmethod
    def divided(cls, train: Split, test: Split) -> Dataset:
        """Uses the last 5,000 training images for validation; 10 % of fewer than 10,000."""
        if len(train) < 2:
            raise ValueError(
                f"expected at least 2 training images, one of them for validation, got {len(train)}"
            )
        num_validation = (
            NUM_VALIDATION if len(train) >= 2 * NUM_VALIDATION else max(1, len(train) // 10)
        )
        cut = len(train) - num_validation
        return cls(train.part(0, cut), train.part(cut, len(train)), test)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def num_classes(self) -> int:
        """One more than the largest label of any split."""
        return 1 + max(
            int(split.labels.max()) for split in (self.train, self.validation, self.test)
        )

    @property
    def counts(self) -> dict[str, int]:
        """What tells this data from other data: the number of classes and images, and a checksum.

        A run that was interrupted resumes only if all of them are the same.
        """
        splits = {"training": self.train, "validation": self.validation, "test": self.test}
        num_images = {f"{name} images": len(split) for name, split in splits.items()}
        checksum = {"as the checksum of its labels": self._checksum}
        return {"classes": self.num_classes} | num_images | checksum

    @cached_property
    def _checksum(self) -> int:
        """Of all labels and, unless they were decoded from photographs, of some images.

        Another version of the decoder may decode a photograph to other bytes.
        """
        found = 0
        for split in (self.train, self.validation, self.test):
            found = zlib.crc32(split.labels.cpu().numpy().tobytes(), found)
            if not self.resizable:
                sample = split.images[:: len(split) // MAX_SAMPLED + 1]
                found = zlib.crc32(sample.cpu().numpy().tobytes(), found)
        return found

    @cached_property
    def normalise(self) -> Normalise:
        """Normalizes training images to mean zero and standard deviation one, per channel."""
        images = self.train.images[:: math.ceil(self.train.images.numel() / MAX_COUNTED)]
        found = [_mean_and_spread(images[:, channel]) for channel in range(images.shape[1])]
        means = tuple(mean for mean, _ in found)
        spreads = tuple(spread for _, spread in found)
        return Normalise(*found[0]) if len(found) == 1 else Normalise(means, spreads)


def _mean_and_spread(levels: UInt8[Tensor, "image height width"]) -> tuple[float, float]:
    # A histogram is exact, and avoids a copy of all images in float.
    share = torch.bincount(levels.flatten(), minlength=256).double() / levels.numel()
    value = torch.arange(256, dtype=torch.float64)
    mean = float((share * value).sum())
    return mean, float((share * (value - mean) ** 2).sum().sqrt()) or 1.0
