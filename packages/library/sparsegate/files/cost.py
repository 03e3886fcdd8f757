"""Where the bits of a file go."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log


@dataclass(frozen=True)
class Cost:
    """Bits, by what they say.

    >>> Cost(values=8) + Cost(values=8, indices=3)
    Cost(values=16, indices=3, other=0)
    """

    values: int = 0
    """What the kept elements are."""
    indices: int = 0
    """Where they belong."""
    other: int = 0
    """Names, shapes, headers, padding."""

    def __add__(self, more: Cost) -> Cost:
        return Cost(self.values + more.values, self.indices + more.indices, self.other + more.other)

    @property
    def total(self) -> int:
        """All bits."""
        return self.values + self.indices + self.other


def position_entropy(total: int, kept: int) -> float:
    """Bits that say which `kept` of `total` elements are kept, if every choice is as likely: log2 C(total, kept).

    >>> round(position_entropy(4, 2), 6)  # six ways
    2.584963
    """
    return (lgamma(total + 1) - lgamma(kept + 1) - lgamma(total - kept + 1)) / log(2)
