"""What a page shows of a finished network, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparsegate.web import BrowserNetwork


@dataclass(frozen=True)
class Mask:
    """Which elements of a weight are kept, as a picture: a row an output, a column an input."""

    name: str
    rows: int
    columns: int
    kept: int
    total: int
    shade: bytes
    """Bits, row by row, the lowest of a byte first; of a coarse picture a byte each, 255 where most is kept."""
    block: int = 1
    """Elements on a side of what is one dot of a coarse picture; 1: every element is a dot."""


@dataclass(frozen=True)
class Filters:
    """The first convolution's weights, filter after filter."""

    name: str
    height: int
    width: int
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TensorBits:
    """Where the bits of one tensor go."""

    name: str
    shape: tuple[int, ...]
    format: str
    kept: int
    values: int
    indices: int
    bound: float
    """Bits that say which are kept, if every choice is as likely."""
    dense: int

    @property
    def total(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class NetworkView:
    """All that a page says of a finished network beyond its record."""

    masks: tuple[Mask, ...]
    filters: Filters | None
    bits: tuple[TensorBits, ...]
    header: int
    """Bits of the file that are neither values nor indices."""
    files: dict[str, int]
    """Bytes of the network's files, by what they are."""
    browser: BrowserNetwork | None
    """The network for the page itself, if it is small enough."""
    no_browser: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Baseline:
    """A dense run to compare with, or the command that makes one."""

    command: str
    name: str = ""
    test: float | None = None
    kept: int = 0
    seconds: float = 0.0
    differs: dict[str, tuple[Any, Any]] | None = None
    """Settings, other than the method, in which it differs: its own value and ours."""
