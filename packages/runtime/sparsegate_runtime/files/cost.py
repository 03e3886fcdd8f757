"""Accounts for the bits of a file."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log


@dataclass(frozen=True)
class Cost:
    """Bits of a file, by what they store.

    >>> Cost(values=8) + Cost(values=8, indices=3)
    Cost(values=16, indices=3, other=0)
    """

    values: int = 0
    """Bits of the kept elements' values."""
    indices: int = 0
    """Bits that store the positions of the kept elements."""
    other: int = 0
    """Bits of names, shapes, headers and padding."""

    def __add__(self, more: Cost) -> Cost:
        return Cost(self.values + more.values, self.indices + more.indices, self.other + more.other)

    @property
    def total(self) -> int:
        """All bits."""
        return self.values + self.indices + self.other


def position_entropy(total: int, kept: int) -> float:
    """The fewest bits that store which `kept` of `total` elements are kept: log2 C(total, kept).

    >>> round(position_entropy(4, 2), 6)  # six ways
    2.584963

    The bound holds on average, for a code that treats all masks with `kept` elements alike.
    """
    return (lgamma(total + 1) - lgamma(kept + 1) - lgamma(total - kept + 1)) / log(2)
