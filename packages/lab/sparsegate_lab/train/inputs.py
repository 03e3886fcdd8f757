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
from .front import Front, PickCopy, Progress, first_copy, silent
from .run import Run

SHARE = 0.5  # of a GPU's free memory that images may take


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a run reads: training batches, and the splits that measure accuracy."""

    data: Dataset
    """The dataset, on the CPU."""
    splits: dict[str, Split]
    """train, validation and test, on the device if they fit; maps if the network has no front."""
    normalise: Callable[[Tensor], Tensor]
    """Turns the bytes of images, or the maps, into the numbers that the network takes."""
    batches: Batches
    accelerator: Accelerator

    @classmethod
    def of(
        cls,
        run: Run[Any],
        data: Dataset,
        accelerator: Accelerator,
        front: Front | None = None,
        progress: Progress = silent,
    ) -> Inputs:
        """The inputs of one process of a run.

        Args:
            run: the run.
            data: its dataset.
            accelerator: the process.
            front: the front that the run's network lacks; the inputs are then what it gives.
            progress: called while the outputs of the front are computed.
        """
        device = accelerator.device
        splits, normalise = splits_of(data), normaliser_of(run, data)
        augments = augments_of(run)
        if front is not None:
            splits = front.splits(data, normalise, device, progress, mirrored=run.flip)
            normalise, augments = first_copy, (PickCopy(),) if run.flip else ()
        splits = to_device(splits, device)
        batches = Batches(
            splits["train"],
            normalise,
            augments,
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


def splits_of(data: Dataset) -> dict[str, Split]:
    """The splits of a dataset by name."""
    return {"train": data.train, "validation": data.validation, "test": data.test}


def to_device(splits: dict[str, Split], device: torch.device) -> dict[str, Split]:
    """The splits, on the device if all of them fit into half of its free memory."""
    num_bytes = sum(split.images.nbytes for split in splits.values())
    if device.type == "cuda" and num_bytes > SHARE * torch.cuda.mem_get_info(device)[0]:
        return splits
    return {name: split.to(device) for name, split in splits.items()}


def fetch_device(split: Split, device: torch.device) -> torch.device | None:
    """The device to which batches must be fetched; None if the images are there already."""
    return None if split.labels.device.type == device.type else device


def _size(run: Run[Any]) -> tuple[int, int]:
    _, height, width = find_model(run.model).image_shape  # type: ignore[attr-defined]
    return height, width
