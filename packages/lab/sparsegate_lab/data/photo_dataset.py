"""Makes a dataset of photographs; some training images become the validation split."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict

import torch

from .cache import CachedPhotos, describe_skipped, load_or_decode
from .dataset import Dataset, Split
from .photos import PhotoSource, Storing

MAX_VALIDATION = 50_000
EVERY = 10


def validation_last(labels: list[int]) -> tuple[list[int], int]:
    """Orders images so that those for validation come last; also returns the number for training.

    >>> validation_last([0] * 10 + [1] * 3)
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 9, 12], 11)
    """
    every = max(EVERY, math.ceil(len(labels) / MAX_VALIDATION))
    of_class: dict[int, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        of_class[label].append(index)
    chosen = {index for indices in of_class.values() for index in indices[every - 1 :: every]}
    # A class of few images gives its last one, unless it is the only one.
    chosen |= {indices[-1] for indices in of_class.values() if 1 < len(indices) < every}
    if not chosen:
        raise ValueError(
            "expected a class with at least two images, one to train on and one for validation"
        )
    rest = [index for index in range(len(labels)) if index not in chosen]
    return rest + sorted(chosen), len(rest)


def photo_dataset(
    train: PhotoSource,
    num_train: int,
    test: PhotoSource,
    storing: Storing,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """A dataset; all but the first `num_train` photographs of `train` are for validation.

    Adds a note on photographs that did not decode.
    """
    squares, tests = load_or_decode(train, storing), load_or_decode(test, storing)
    _check_classes(train, squares, num_train)
    _check_classes(test, tests, len(test.labels()))
    whole = _split(squares, train)
    cut = bisect.bisect_left(squares.kept, num_train)  # some of them may have been skipped
    if not 0 < cut < len(whole):
        raise ValueError(
            "no image is left for training, or none for validation, as the others do not decode"
        )
    skipped = squares.skipped | tests.skipped
    return Dataset(
        whole.part(0, cut),
        whole.part(cut, len(whole)),
        _split(tests, test),
        resizable=True,
        notes=(*notes, *([describe_skipped(skipped)] if skipped else [])),
    )


def _check_classes(source: PhotoSource, squares: CachedPhotos, count: int) -> None:
    """Raises if none of the first `count` photographs of a class is left."""
    labels = source.labels()
    kept = {labels[index] for index in squares.kept if index < count}
    for index in range(count):
        if labels[index] not in kept:
            raise ValueError(
                f"no image of the class of {source.name(index)} decodes; repair some of them, or "
                "remove the class"
            )


def _split(squares: CachedPhotos, source: PhotoSource) -> Split:
    labels = source.labels()
    return Split(squares.images, torch.tensor([labels[index] for index in squares.kept]))
