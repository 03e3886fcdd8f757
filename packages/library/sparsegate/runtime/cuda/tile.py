"""Tiles: how a sparse layer's work is cut into programs of the GPU."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHARED = 1 << 16
"""Bytes of an image that is kept in shared memory; more would leave no room for the next program."""
LARGE_IMAGE = 1 << 15
"""Bytes of which every thread of a program loads many: fewer threads are faster."""
LONG = 400
"""Several images: rows of more words than this take whole programs."""
MAX_WORDS = 32
"""One image: words, those of the padding included, that a thread holds at once; more was slower."""
LEAST_PROGRAMS = 120  # a little fewer than the multiprocessors of an H100 or H200


@dataclass(frozen=True)
class Tile:
    """What one program does; any tile gives the same outputs, up to rounding, and some are faster."""

    rows: int
    """Rows of a program; a power of two."""
    width: int
    """Weights of each row that are multiplied at a time; a power of two."""
    warps: int
    """Groups of 32 threads of a program."""
    images: int = 1
    """Images of a program; a power of two."""
    spread: bool = False
    """Several images: put the images of a column side by side first, with a kernel of its own."""
    shared: bool = False
    """One image: keep all of it in shared memory."""
    each: int = 4
    """One image: words of a row that a thread has side by side."""

    @property
    def lanes(self) -> int:
        """One image: how many threads share a row."""
        return max(1, 32 * self.warps // self.rows)

    @property
    def step(self) -> int:
        """One image: how many words of a row lie side by side before those of the next row."""
        return min(self.width, self.each * self.lanes)


LOOP = Tile(8, 512, 8, shared=True, each=8)
"""One image: for rows that are too long for the threads of a program."""


def choose(longest: int, num_rows: int, num_images: int, image_bytes: int) -> Tile:
    """The tile, as measured on an H200, for rows of at most so many words and images of so many bytes.

    >>> choose(390, 4096, 1, 32768)
    Tile(rows=32, width=512, warps=16, images=1, spread=False, shared=True, each=16)
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
    """Whole rows at once, with a copy of the image; rows that are too long bit by bit; a huge image where it is."""
    width = max(64, power_of_two(longest))
    if image_bytes > MAX_SHARED:
        return Tile(max(1, 512 // width), min(512, width), 8)
    warps = 8 if image_bytes > LARGE_IMAGE else 16
    rows = min(32, power_of_two(num_rows // LEAST_PROGRAMS + 1) // 2) or 1
    room = MAX_WORDS * 32 * warps // width
    if room < min(rows, LOOP.rows):
        return LOOP
    rows = min(rows, room)
    # every thread has at least 16 bytes, of the words or of the image
    warps = min(warps, max(1, rows * width // 128, image_bytes // 512))
    # the compiler gives a thread 4 words side by side, or 8 if there are as many words as inputs; twice that is faster
    each = 16 if 2 * rows * width == image_bytes else 8
    return Tile(rows, width, warps, shared=True, each=each)


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
