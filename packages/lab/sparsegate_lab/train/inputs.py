"""The images of a run: loaded to its device, normalized, and batched for training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from sparsegate_lab.data import (
    IMAGENET,
    Augment,
    Dataset,
    Erase,
    Fit,
    Flip,
    Jitter,
    RandomCrop,
    Shift,
    Split,
)
from sparsegate_lab.models import find_model

from .batches import Batches
from .evaluate import accuracy
from .run import Run

SHARE = 0.5  # of a GPU's free memory that images may take


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a run reads: training batches, and the splits that measure accuracy."""

    data: Dataset
    """The dataset, on the CPU."""
    splits: dict[str, Split]
    """train, validation and test, on the device if they fit."""
    normalise: Callable[[Tensor], Tensor]
    """Turns the bytes of images into the numbers that the network takes."""
    batches: Batches
    accelerator: Accelerator

    @classmethod
    def of(cls, run: Run[Any], data: Dataset, accelerator: Accelerator) -> Inputs:
        """The inputs of one process of a run."""
        device = accelerator.device
        splits, normalise = to_device(data, device), normaliser_of(run, data)
        batches = Batches(
            splits["train"],
            normalise,
            augments_of(run),
            run.batch_size,
            run.seed,
            rank=accelerator.process_index,
            world=accelerator.num_processes,
            fetch_to=fetch_device(splits["train"], device),
            compiled=run.compile,
        )
        return cls(data, splits, normalise, batches, accelerator)

    def accuracy(self, model: nn.Module, split: str) -> float:
        """A model's accuracy on one of the splits, in percent."""
        return accuracy(model, self.splits[split], self.normalise, self.accelerator)


def normaliser_of(run: Run[Any], data: Dataset) -> Callable[[Tensor], Tensor]:
    """The function that turns bytes of images into the numbers that the run's network takes."""
    normalise = IMAGENET if run.normalise == "imagenet" else data.normalise
    return Fit(_size(run), normalise) if data.resizable else normalise


def augments_of(run: Run[Any]) -> tuple[Augment, ...]:
    """The random changes of the run's training images, in their order."""
    augments: list[Augment] = [Shift(run.shift)]
    if run.flip:
        augments.append(Flip())
    if run.crop:
        augments.append(RandomCrop(_size(run), run.crop))
    if run.jitter:
        augments.append(Jitter(run.jitter))
    if run.erase:
        augments.append(Erase(run.erase))
    return tuple(augments)


def to_device(data: Dataset, device: torch.device) -> dict[str, Split]:
    """The splits by name, on the device if all of them fit into half of its free memory."""
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    if device.type == "cuda" and data.num_bytes > SHARE * torch.cuda.mem_get_info(device)[0]:
        return splits
    return {name: split.to(device) for name, split in splits.items()}


def fetch_device(split: Split, device: torch.device) -> torch.device | None:
    """The device to which batches must be fetched; None if the images are there already."""
    return None if split.labels.device.type == device.type else device


def _size(run: Run[Any]) -> tuple[int, int]:
    _, height, width = find_model(run.model).image_shape  # type: ignore[attr-defined]
    return height, width
