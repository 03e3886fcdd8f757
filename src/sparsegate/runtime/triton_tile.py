"""Tiles: how a sparse layer's work is cut into programs of the GPU."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHARED = 1 << 16
"""Bytes of an image that is kept in shared memory; more would leave no room for the next program."""
LARGE_IMAGE = 1 << 14
"""Bytes of which every copy counts: programs have more rows, so that there are fewer of them."""
LONG = 400
"""Rows of more words than this take whole programs."""
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


def choose(longest: int, num_rows: int, num_images: int, image_bytes: int) -> Tile:
    """The tile, as measured on an H200, for rows of at most so many words and images of so many bytes.

    >>> choose(390, 4096, 1, 32768)
    Tile(rows=32, width=128, warps=8, images=1, spread=False, shared=True)
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
    """Few large programs share a copy of the image; without one, many small programs hide the time of a gather."""
    widest = 128 if image_bytes > LARGE_IMAGE and longest <= LONG else 512
    width = min(widest, max(64, power_of_two(longest) // 2))
    if image_bytes > MAX_SHARED:
        return Tile(max(1, 512 // width), width, 8)
    rows = min(32, 4096 // width)
    while rows > 1 and num_rows < LEAST_PROGRAMS * rows:
        rows, width = rows // 2, min(2 * width, max(64, power_of_two(longest)))
    return Tile(rows, width, max(1, min(8, rows * width // 256)), shared=True)


def _short(longest: int, images: int) -> Tile:
    if longest <= 64:
        return Tile(2, 16, 1, images, spread=True)
    if images * longest >= 16 * 256:
        return Tile(1, 32, 1, images, spread=True)
    return Tile(2, 64, 2, images, spread=True)


def _long(images: int) -> Tile:
    if images <= 4:
        return Tile(1, 512, 4, images)
    return Tile(1, 256, 4, images, spread=True) if images <= 16 else Tile(1, 128, 2, 32, spread=True)
