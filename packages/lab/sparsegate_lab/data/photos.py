"""Sources of photographs, and how to decode and store one."""

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
}  # Pillow's modes whose range is unknown
SIXTEEN_BITS = (
    "PNG",
    "PPM",
)  # formats whose 16-bit gray has the mode "I" in some versions of Pillow
MISSING = (
    "photographs are decoded with Pillow, which is not installed; pip install 'sparsegate[images]'"
)


def ignore(done: int, total: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True)
class Storing:
    """How photographs are stored: each is decoded once, to a square of bytes."""

    size: int = 256
    """Side of the square in pixels: the shorter side is resized to it, the centre is kept."""

    bad_images: Literal["stop", "skip"] = "stop"
    """Whether to stop at an image that does not decode, or to skip it."""

    cache: Path | None = None
    """Folder of the cache; by default $SPARSEGATE_CACHE, or ~/.cache/sparsegate."""

    progress: Callable[[int, int], None] = ignore
    """Called with the number of decoded images and of all images."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(
                f"expected a size of stored images of at least 1 pixel, got {self.size}"
            )
        if self.bad_images not in BAD_IMAGES:
            raise ValueError(
                f"bad_images: expected {' or '.join(BAD_IMAGES)}, got {self.bad_images!r}"
            )


class PhotoSource(abc.ABC):
    """Labeled photographs, by index; workers read them, so it holds no open files."""

    @abc.abstractmethod
    def labels(self) -> list[int]:
        """The class of each photograph."""

    @abc.abstractmethod
    def name(self, index: int) -> str:
        """A name that a person recognizes."""

    @abc.abstractmethod
    def read(self, index: int) -> bytes:
        """The content of the photograph's file."""

    @abc.abstractmethod
    def key(self) -> str:
        """A text that changes if any photograph changes."""


def decode(content: bytes, size: int) -> npt.NDArray[np.uint8]:
    """The central square of a photograph, its shorter side at `size`, as bytes (3, size, size).

    Raises what Pillow raises if the file is damaged, and ValueError if Pillow does not know its
    format or the range of its pixels is unknown.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(content))
    except UnidentifiedImageError as error:  # whose message has a memory address
        raise ValueError("expected an image format that Pillow knows") from error
    with opened as image:
        image.draft("RGB", (size, size))  # decodes a large JPEG at a fraction of its size
        colour = _as_bytes(image).convert("RGB")
    side = min(colour.size)
    left, top = ((length - side) // 2 for length in colour.size)
    box = (left, top, left + side, top + side)
    square = np.asarray(colour.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return np.ascontiguousarray(square.transpose(2, 0, 1))


def _as_bytes(image: Image) -> Image:
    """The image with 8 bits per channel; of 16-bit gray, the upper byte is kept."""
    from PIL.Image import fromarray

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS):
        return fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in WIDE:
        raise ValueError(
            f"expected 8 or 16 bits per channel, got {WIDE[image.mode]}; convert the image"
        )
    return image
