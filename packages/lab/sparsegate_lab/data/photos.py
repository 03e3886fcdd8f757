"""Photographs before they are decoded, and how they are to be stored."""

from __future__ import annotations

import abc
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

BAD_IMAGES = ("stop", "skip")
WIDE = {
    "I": "32-bit integers",
    "F": "floating-point numbers",
}  # what Pillow calls pixels of no known range
SIXTEEN_BITS = ("PNG", "PPM")  # files whose 16-bit grey is "I", too, in some versions of Pillow
MISSING = (
    "photographs are decoded with Pillow, which is not installed; pip install 'sparsegate[images]'"
)


def ignore(done: int, total: int) -> None:
    """Tells nobody how far decoding is."""


@dataclass(frozen=True)
class Storing:
    """How photographs are stored: each becomes a square of bytes, once."""

    size: int = 256
    """Side of the square in pixels: the shorter side is brought to it, the middle is kept."""

    bad_images: Literal["stop", "skip"] = "stop"
    """What to do about an image that does not decode."""

    cache: Path | None = None
    """Folder for the squares; without it $SPARSEGATE_CACHE, or ~/.cache/sparsegate."""

    progress: Callable[[int, int], None] = ignore
    """Told how many images are decoded, of how many."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the size of stored images is at least one pixel, got {self.size}")
        if self.bad_images not in BAD_IMAGES:
            raise ValueError(
                f"bad_images is one of {', '.join(BAD_IMAGES)}, got {self.bad_images!r}"
            )


class Source(abc.ABC):
    """Labelled photographs, by number; workers read them, so it holds no open files."""

    @abc.abstractmethod
    def labels(self) -> list[int]:
        """The class of each."""

    @abc.abstractmethod
    def name(self, place: int) -> str:
        """What a person knows the photograph by."""

    @abc.abstractmethod
    def read(self, place: int) -> bytes:
        """The photograph's file."""

    @abc.abstractmethod
    def key(self) -> str:
        """A text that is another one if any photograph is another one."""


def decode(content: bytes, size: int) -> npt.NDArray[np.uint8]:
    """The middle square of a photograph, its shorter side at `size`, as bytes (3, size, size).

    Raises whatever Pillow raises if the file is damaged, and ValueError if it is no image that Pillow knows, or one
    whose pixels do not say what is black and what is white.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(content))
    except UnidentifiedImageError as error:  # which names a place in memory
        raise ValueError("no kind of image that Pillow knows") from error
    with opened as image:
        image.draft(
            "RGB", (size, size)
        )  # a large JPEG is decoded at half or a quarter of its size, if that is enough
        colour = _as_bytes(image).convert("RGB")
    side = min(colour.size)
    left, top = ((each - side) // 2 for each in colour.size)
    box = (left, top, left + side, top + side)
    square = np.asarray(colour.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return np.ascontiguousarray(square.transpose(2, 0, 1))


def _as_bytes(image: Image) -> Image:
    """The image with a byte for a colour: of 16-bit grey the upper one, as Pillow takes it of 16-bit colours itself."""
    from PIL.Image import fromarray

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS):
        return fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in WIDE:
        raise ValueError(
            f"its pixels are {WIDE[image.mode]}; wanted 8 or 16 bits for a colour, convert it to these"
        )
    return image
