"""Chooses how much of a sparse layer's output one program of the GPU computes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHARED = 1 << 16
"""Largest image, in bytes, for shared memory. A larger one leaves no room for the next program."""
LARGE_IMAGE = 1 << 15
"""From this size in bytes on, programs with fewer threads are faster."""
LONG = 400
"""Several images: a row with more words than this gets a whole program."""
MAX_WORDS = 32
"""One image: most words, with padding, that a thread holds at once. More were slower."""
LEAST_PROGRAMS = 120  # a little fewer than the multiprocessors of an H100 or H200


@dataclass(frozen=True)
class Tile:
    """The work of one program. It changes the speed, and the outputs only by rounding."""

    rows: int
    """Rows of a program; a power of two."""
    width: int
    """Words of each row that are multiplied at a time; a power of two."""
    warps: int
    """Warps of a program; each has 32 threads."""
    images: int = 1
    """Images of a program; a power of two."""
    spread: bool = False
    """Several images: first transpose them with the kernel `spread`."""
    shared: bool = False
    """One image: copy it to shared memory."""
    adjacent: int = 4
    """One image: adjacent words of a row that one thread multiplies."""

    @property
    def lanes(self) -> int:
        """One image: threads that share a row."""
        return max(1, 32 * self.warps // self.rows)

    @property
    def step(self) -> int:
        """One image: adjacent words of a row, before those of the next row."""
        return min(self.width, self.adjacent * self.lanes)


LOOP = Tile(8, 512, 8, shared=True, adjacent=8)
"""One image: the tile for rows that are too long for the threads of a program."""


def choose(longest: int, num_rows: int, num_images: int, image_bytes: int) -> Tile:
    """Chooses the fastest tile that was measured on an H200.

    >>> choose(390, 4096, 1, 32768)
    Tile(rows=32, width=512, warps=16, images=1, spread=False, shared=True, adjacent=16)

    Args:
        longest: words of the longest row.
        num_rows: rows of the layer.
        num_images: images of the batch.
        image_bytes: size of one image.
    """
    images = min(64, power_of_two(num_images))
    if images == 1:
        return _one(longest, num_rows, image_bytes)
    return _long(images) if longest > LONG else _short(longest, images)


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least the number.

    >>> power_of_two(9216), power_of_two(1), power_of_two(0)
    (16384, 1, 1)
    """
    return 1 << max(0, number - 1).bit_length()


def _one(longest: int, num_rows: int, image_bytes: int) -> Tile:
    """Chooses the tile for one image.

    A program multiplies whole rows at once with a copy of the image. It loops over rows that are
    too long, and reads an image that is too large for a copy from global memory.
    """
    width = max(64, power_of_two(longest))
    if image_bytes > MAX_SHARED:
        return Tile(max(1, 512 // width), min(512, width), 8)
    warps = 8 if image_bytes > LARGE_IMAGE else 16
    rows = min(32, power_of_two(num_rows // LEAST_PROGRAMS + 1) // 2) or 1
    room = MAX_WORDS * 32 * warps // width
    if room < min(rows, LOOP.rows):
        return LOOP
    rows = min(rows, room)
    # Every thread gets at least 16 bytes of the words or of the image.
    warps = min(warps, max(1, rows * width // 128, image_bytes // 512))
    # The compiler gives a thread 4 adjacent words, or 8 if the numbers of words and of inputs are
    # equal. Twice that is faster.
    adjacent = 16 if 2 * rows * width == image_bytes else 8
    return Tile(rows, width, warps, shared=True, adjacent=adjacent)


def _short(longest: int, images: int) -> Tile:
    if longest <= 64:
        return Tile(2, 16, 1, images, spread=True)
    if images * longest >= 16 * 256:
        return Tile(1, 32, 1, images, spread=True)
    return Tile(2, 64, 2, images, spread=True)


def _long(images: int) -> Tile:
    if images <= 4:
        return Tile(1, 512, 4, images)
    return (
        Tile(1, 256, 4, images, spread=True) if images <= 16 else Tile(1, 128, 2, 32, spread=True)
    )
