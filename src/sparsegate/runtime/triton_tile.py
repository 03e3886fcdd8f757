"""Tiles: how a sparse layer's work is cut into programs of the GPU."""

from __future__ import annotations

from dataclasses import dataclass


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
    early: bool = False
    """Begin, with the weights, while the kernel before it is still running (programmatic dependent launch)."""
    shared: bool = False
    """One image: keep all of it in shared memory."""


def choose(mean: float, num_rows: int, num_images: int) -> Tile:
    """A tile for a layer of so many rows, with so many words each on average, and so many images."""
    if num_images == 1:
        return _one(mean, num_rows)
    images = min(16, power_of_two(num_images))
    width = min(64, max(16, power_of_two(int(mean)) // 2))
    return Tile(1, width, max(1, width * images // 256), images, spread=num_images > 2)


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least the number.

    >>> power_of_two(9216), power_of_two(1), power_of_two(0)
    (16384, 1, 1)
    """
    return 1 << max(0, number - 1).bit_length()


def _one(mean: float, num_rows: int) -> Tile:
    width = min(512, max(16, power_of_two(int(mean))))
    rows = max(1, min(256 // width, num_rows // 256))
    return Tile(power_of_two(rows), width, max(1, min(4, rows * width // 64)))
