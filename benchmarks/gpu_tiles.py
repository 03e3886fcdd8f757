"""Tiles that the benchmark of GPU layers tries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparsegate.runtime.triton_tile import Tile, power_of_two

# rows, width and warps of a program
ONE = (
    *((1, 32, 1), (2, 32, 1), (4, 32, 1), (4, 32, 2), (4, 32, 4), (8, 32, 4), (8, 32, 8), (16, 32, 4)),
    *((1, 64, 1), (2, 64, 2), (4, 64, 4), (8, 64, 4), (4, 64, 2)),
    *((1, 128, 1), (1, 128, 2), (1, 128, 4), (2, 128, 2), (2, 128, 4), (4, 128, 4), (4, 128, 8)),
    *((1, 256, 1), (1, 256, 2), (1, 256, 4), (2, 256, 4), (2, 256, 8), (4, 256, 8)),
    *((1, 512, 2), (1, 512, 4), (2, 512, 4), (2, 512, 8), (4, 512, 8), (1, 512, 8)),
    *((1, 1024, 4), (1, 1024, 8), (2, 1024, 8), (1, 2048, 8)),
)
SHARED = ((32, 32, 8), (32, 64, 8), (16, 128, 8), (8, 512, 8), (16, 512, 16), (4, 1024, 8), (8, 1024, 16))
SPREAD = (
    *((1, 16, 1), (1, 32, 1), (1, 64, 1), (1, 64, 2), (1, 64, 4), (1, 128, 2), (1, 128, 4), (1, 256, 4)),
    *((2, 16, 1), (2, 32, 2), (4, 16, 2), (4, 32, 4), (2, 64, 4)),
)
DIRECT = ((1, 32, 1), (1, 64, 1), (1, 64, 2), (1, 128, 2), (1, 256, 4), (1, 512, 4), (4, 32, 2))
CONV = (
    *((1, 16, 4, 256), (1, 32, 4, 256), (1, 16, 2, 256), (1, 8, 4, 256), (2, 16, 4, 128), (2, 16, 8, 256)),
    *((1, 32, 4, 128), (1, 16, 2, 128), (1, 32, 2, 64), (1, 64, 4, 64), (4, 16, 8, 64), (1, 64, 8, 128)),
)


def candidates(mean: float, num_images: int) -> Iterator[Tile]:
    """Tiles for rows of so many words, begun late; `begun_early` makes the others of the best."""
    if num_images == 1:
        yield from _one(mean)
        return
    for rows, width, warps in (each for each in SPREAD if _fits(each[1], mean)):
        for images in _panels(num_images):
            if 1 <= rows * width * images / (32 * warps) <= 64:
                yield Tile(rows, width, warps, images, spread=True)
    if num_images <= 16:
        for rows, width, warps in (each for each in DIRECT if _fits(each[1], mean)):
            yield Tile(rows, width, warps, power_of_two(num_images))


def begun_early(tile: Tile) -> Tile:
    """The same tile with programmatic dependent launch."""
    return replace(tile, early=True)


def conv_candidates() -> Iterator[Tile]:
    """Tiles of convolutions; their images are pixels."""
    for rows, width, warps, pixels in CONV:
        yield Tile(rows, width, warps, pixels)


def _one(mean: float) -> Iterator[Tile]:
    for rows, width, warps in (each for each in ONE if _fits(each[1], mean)):
        yield Tile(rows, width, warps)
        if rows * width > 32 * warps:  # a thread has several words
            yield Tile(rows, width, warps, vector=False)
    for rows, width, warps in (each for each in SHARED if _fits(each[1], mean)):
        yield Tile(rows, width, warps, shared=True)


def _fits(width: int, mean: float) -> bool:
    return width <= 32 or mean / 12 <= width <= 3 * mean


def _panels(num_images: int) -> list[int]:
    images = min(64, power_of_two(num_images))
    return [images] if images < 8 else [images, images // 2] if images < 64 else [64, 32, 16]
