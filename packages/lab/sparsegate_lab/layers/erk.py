"""Divides weights among layers by their shapes (ERK): small layers are denser than large ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = Sequence[int]


def erk_counts(shapes: Sequence[Shape], keep: float) -> list[int]:
    """How many weights each layer keeps, if the fraction `keep` of all is left.

    The density of a layer is proportional to the sum of its dimensions over their product, and at
    most one (Mocanu et al., 2018; Evci et al., 2020).

    >>> erk_counts([(100, 100), (100, 10)], keep=0.1)
    [710, 390]
    """
    sizes = [prod(shape) for shape in shapes]
    parts: list[float] = [sum(shape) for shape in shapes]
    full: set[int] = set()
    while True:
        left = keep * sum(sizes) - sum(sizes[index] for index in full)
        others = [index for index in range(len(sizes)) if index not in full]
        if not others:
            return sizes
        unit = left / sum(parts[index] for index in others)
        dense = {index for index in others if unit * parts[index] >= sizes[index]}
        if not dense:
            break
        full |= dense
    return [
        sizes[index] if index in full else max(1, round(unit * parts[index]))
        for index in range(len(sizes))
    ]
