"""How a run's network sees images: at its size, normalised, and changed at random in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

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
)
from sparsegate_lab.models import MODELS

from .run import Run


def view_of(run: Run[Any], data: Dataset) -> Callable[[Tensor], Tensor]:
    """What makes the bytes of images the numbers that the run's network takes."""
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


def _size(run: Run[Any]) -> tuple[int, int]:
    _, height, width = MODELS[run.model].image_shape  # type: ignore[attr-defined]
    return height, width
