"""Triton kernels that crop, resize, mirror, jitter and normalize images, for `gpu_augment`."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

RED, GREEN, BLUE = tl.constexpr(0.299), tl.constexpr(0.587), tl.constexpr(0.114)
WIDEST = tl.constexpr(0.28768207245178085)  # log(4 / 3)


# fmt: off
@triton.jit
@no_type_check
def line(begin, length, at, COUNT: tl.constexpr):
    """Returns center, reach and first old pixel of each new pixel, as `crop._matrix` does."""
    step = length / COUNT
    reach = tl.maximum(step, 1.0)
    middle = begin + (at + 0.5) * step - 0.5
    return middle, reach, tl.floor(middle - reach).to(tl.int32) + 1


@triton.jit
@no_type_check
def share_of(at, middle, reach, PIXELS: tl.constexpr):
    """Returns the weight of an old pixel in a new one, which is zero outside of the image."""
    share = tl.maximum(1 - tl.abs(at - middle) / reach, 0.0)
    return tl.where((at >= 0) & (at < PIXELS), share, 0.0)


@triton.jit
@no_type_check
def colours(
    images, crops, mirrors, image, at, smallest, MIRROR: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TAPS: tl.constexpr,
):
    """Computes red, green and blue of new pixels as `RandomCrop` and `resized` do."""
    area = smallest + (1 - smallest) * tl.load(crops + image * 4)
    wider = tl.exp((2 * tl.load(crops + image * 4 + 1) - 1) * WIDEST)
    down = HEIGHT * tl.minimum(tl.sqrt(area / wider), 1.0)
    right = WIDTH * tl.minimum(tl.sqrt(area * wider), 1.0)
    top = (HEIGHT - down) * tl.load(crops + image * 4 + 2)
    left = (WIDTH - right) * tl.load(crops + image * 4 + 3)
    at = tl.minimum(at, ROWS * COLUMNS - 1)  # the last block extends beyond the image
    middle_y, reach_y, first_y = line(top, down, at // COLUMNS, ROWS)
    middle_x, reach_x, first_x = line(left, right, at % COLUMNS, COLUMNS)
    pixels = images + image.to(tl.int64) * (3 * HEIGHT * WIDTH)
    is_mirrored = tl.load(mirrors + image) == 1 if MIRROR else False
    red = tl.zeros_like(middle_x)
    green, blue, total = red, red, red
    for down_by in tl.static_range(TAPS):
        y = first_y + down_by
        share_y = share_of(y, middle_y, reach_y, HEIGHT)
        for right_by in tl.static_range(TAPS):
            x = first_x + right_by
            share = share_y * share_of(x, middle_x, reach_x, WIDTH)
            old = pixels + y * WIDTH + tl.where(is_mirrored, WIDTH - 1 - x, x)
            is_seen = share > 0
            red += share * tl.load(old, mask=is_seen, other=0).to(tl.float32)
            green += share * tl.load(old + HEIGHT * WIDTH, mask=is_seen, other=0).to(tl.float32)
            blue += share * tl.load(old + 2 * HEIGHT * WIDTH, mask=is_seen, other=0).to(tl.float32)
            total += share
    return red / total, green / total, blue / total


@triton.jit(do_not_specialize_on_alignment=["images", "crops", "mirrors", "sums"])
@no_type_check
def brightness_kernel(
    images, crops, mirrors, sums, smallest,
    MIRROR: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Sums the gray levels of each block of each new image, for the mean that contrast needs."""
    image, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    red, green, blue = colours(
        images, crops, mirrors, image, at, smallest, MIRROR, HEIGHT, WIDTH, ROWS, COLUMNS, TAPS
    )
    grey = tl.where(at < ROWS * COLUMNS, RED * red + GREEN * green + BLUE * blue, 0.0)
    tl.store(sums + image * tl.num_programs(1) + tl.program_id(1), tl.sum(grey))


@triton.jit(do_not_specialize_on_alignment=["images", "crops", "mirrors", "sums", "light", "out"])
@no_type_check
def view_kernel(
    images, crops, mirrors, sums, light, out, smallest, means, spreads,
    MIRROR: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, LIGHT: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Computes a block of each new image. MIRROR and LIGHT select random flips and jitter."""
    image, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    parts = colours(
        images, crops, mirrors, image, at, smallest, MIRROR, HEIGHT, WIDTH, ROWS, COLUMNS, TAPS
    )
    factor, rest = 1.0, tl.zeros_like(parts[0])
    if LIGHT:  # as `Jitter`
        blocks = tl.arange(0, BLOCKS)
        number = tl.num_programs(1)
        greys = tl.load(sums + image * number + blocks, mask=blocks < number, other=0.0)
        mean = tl.sum(greys) / (ROWS * COLUMNS)
        bright, contrast = tl.load(light + image * 3), tl.load(light + image * 3 + 1)
        colour = tl.load(light + image * 3 + 2)
        grey = RED * parts[0] + GREEN * parts[1] + BLUE * parts[2]
        rest = (1 - contrast) * bright * mean + bright * contrast * (1 - colour) * grey
        factor = bright * contrast * colour
    first = out + image.to(tl.int64) * (3 * ROWS * COLUMNS) + at
    for channel in tl.static_range(3):
        level = tl.minimum(tl.maximum(rest + factor * parts[channel], 0.0), 255.0)
        value = (level - means[channel]) / spreads[channel]
        tl.store(first + channel * ROWS * COLUMNS, value, mask=at < ROWS * COLUMNS)
# fmt: on
