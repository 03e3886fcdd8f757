"""Makes a dataset of photographs, with validation images from among those for training."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict

import torch

from .cache import Stored, stored, told
from .dataset import Dataset, Split
from .photos import Source, Storing

MAX_VALIDATION = 50_000
EVERY = 10


def aside(labels: list[int]) -> tuple[list[int], int]:
    """An order of the images with those for validation last, and how many come before them.

    >>> aside([0] * 10 + [1] * 3)
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 9, 12], 11)
    """
    every = max(EVERY, math.ceil(len(labels) / MAX_VALIDATION))
    of_class: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels):
        of_class[label].append(place)
    chosen = {place for places in of_class.values() for place in places[every - 1 :: every]}
    # A class of few images gives its last one, if it has another.
    chosen |= {places[-1] for places in of_class.values() if 1 < len(places) < every}
    if not chosen:
        raise ValueError(
            "no class has two images: one is trained on and one is set aside for validation"
        )
    rest = [place for place in range(len(labels)) if place not in chosen]
    return rest + sorted(chosen), len(rest)


def gathered(
    train: Source, num_train: int, test: Source, storing: Storing, notes: tuple[str, ...] = ()
) -> Dataset:
    """A dataset whose first `num_train` photographs are for training, the others of `train` for validation.

    To the notes it adds what did not decode.
    """
    squares, tests = stored(train, storing), stored(test, storing)
    _check_classes(train, squares, num_train)
    _check_classes(test, tests, len(test.labels()))
    whole = _split(squares, train)
    cut = bisect.bisect_left(squares.kept, num_train)  # some before it may have been skipped
    if not 0 < cut < len(whole):
        raise ValueError(
            "no image is left to train on, or none for validation, after those that do not decode"
        )
    skipped = squares.skipped | tests.skipped
    return Dataset(
        whole.part(0, cut),
        whole.part(cut, len(whole)),
        _split(tests, test),
        resizable=True,
        notes=(*notes, *([told(skipped)] if skipped else [])),
    )


def _check_classes(source: Source, squares: Stored, count: int) -> None:
    """Refuses a class of which none of the first `count` photographs is left."""
    labels = source.labels()
    kept = {labels[place] for place in squares.kept if place < count}
    for place in range(count):
        if labels[place] not in kept:
            raise ValueError(
                f"no image is left of the class of {source.name(place)} after those that do not decode; mend some of "
                "them, or take the class out"
            )


def _split(squares: Stored, source: Source) -> Split:
    labels = source.labels()
    return Split(squares.images, torch.tensor([labels[place] for place in squares.kept]))
