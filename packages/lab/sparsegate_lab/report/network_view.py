"""What a page shows of a finished network, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparsegate.web import BrowserNetwork


@dataclass(frozen=True)
class Mask:
    """The kept elements of a weight as a picture: a row per output, a column per input."""

    name: str
    rows: int
    columns: int
    kept: int
    total: int
    shade: bytes
    """Bits, row by row, lowest first; a coarse picture has a byte per block, 255 for all kept."""
    block: int = 1
    """Elements per side of a block in a coarse picture; 1 if every element is a dot."""


@dataclass(frozen=True)
class Filters:
    """The weights of the first convolution, filter by filter."""

    name: str
    height: int
    width: int
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TensorBits:
    """How many bits of the file each part of one tensor takes."""

    name: str
    shape: tuple[int, ...]
    format: str
    kept: int
    values: int
    indices: int
    bound: float
    """Bits that say which elements are kept, if every choice is equally likely."""
    dense: int

    @property
    def total(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class WrongImage:
    """A test image that the network takes for another class."""

    label: str
    answer: str
    height: int
    width: int
    pixels: bytes
    """Rows of gray or, with three bytes a pixel, of colors."""


@dataclass(frozen=True)
class Mistakes:
    """What the network takes test images for."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """[label, answer]"""
    images: tuple[WrongImage, ...]


@dataclass(frozen=True)
class NetworkView:
    """Everything that a page says about a finished network in addition to its record."""

    masks: tuple[Mask, ...]
    filters: Filters | None
    bits: tuple[TensorBits, ...]
    header: int
    """Bits of the file that are neither values nor indices."""
    files: dict[str, int]
    """Bytes of the network's files, by kind."""
    browser: BrowserNetwork | None
    """The network for use in the page, if it is small enough."""
    no_browser: str = ""
    """Why the page does not contain the network."""
    mistakes: Mistakes | None = None
    """Counted for small networks of few classes."""


@dataclass(frozen=True)
class Baseline:
    """A dense run to compare with, or the command that creates one."""

    command: str
    name: str = ""
    test: float | None = None
    kept: int = 0
    seconds: float = 0.0
    differs: dict[str, tuple[Any, Any]] | None = None
    """Settings other than the method that differ: its value and ours."""
