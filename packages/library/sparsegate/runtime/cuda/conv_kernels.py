"""Triton kernels that pad images and convolve them with sparse weights."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra import cuda

from .kernels import decode, fetch, locate


# fmt: off
@triton.jit(do_not_specialize=["num_rows", "num_pixels", "out_height", "out_width", "plane", "row"])
@no_type_check
def conv(
    x, columns, values, bias, order, out, bands, num_rows, num_pixels, out_height, out_width,
    plane, row, channels, group_rows, stride_y, stride_x, step_y, step_x,
    KIND: tl.constexpr, RELU: tl.constexpr, KERNEL_Y: tl.constexpr, KERNEL_X: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, PIXELS: tl.constexpr, NUM_BANDS: tl.constexpr,
    EARLY: tl.constexpr,
):
    # fmt: on
    """Computes ROWS output channels at PIXELS pixels of a padded input.

    Padding makes the address of an input the sum of a pixel's offset and a weight's offset. Pixels
    are the first axis of all blocks, because the compiler puts adjacent threads along the first of
    equal axes.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
    first, rows, start, width = locate(tl.program_id(0), bands, ROWS, NUM_BANDS)
    which = tl.arange(0, ROWS)
    is_row = which < rows
    start += which * width
    target = tl.load(order + first + which, mask=is_row, other=0)
    total = tl.load(bias + first + which, mask=is_row, other=0.0)[None, :]
    k = tl.arange(0, WIDTH)
    mask = is_row[:, None] & (k[None, :] < width)
    column, value = fetch(columns, values, start[:, None] + k[None, :], mask, KIND)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    is_pixel = pixel < num_pixels
    image = pixel // (out_height * out_width)
    spot = pixel % (out_height * out_width)
    base = image * channels * plane
    base += spot // out_width * stride_y * row + spot % out_width * stride_x
    group = target // group_rows * (channels // (num_rows // group_rows)) * plane
    if EARLY:
        cuda.gdc_wait()
    partial = tl.zeros([PIXELS, ROWS, WIDTH], tl.float32)
    begin = 0
    while begin < width:
        position, weight = decode(column, value, KIND)
        here = mask
        k = begin + WIDTH + tl.arange(0, WIDTH)
        mask = is_row[:, None] & (k[None, :] < width)
        column, value = fetch(columns, values, start[:, None] + k[None, :], mask, KIND)
        y = position // KERNEL_X % KERNEL_Y * step_y * row
        at = position // (KERNEL_Y * KERNEL_X) * plane + y + position % KERNEL_X * step_x
        at += group[:, None]
        both = is_pixel[:, None, None] & here[None, :, :]
        seen = tl.load(x + (base[:, None, None] + at[None, :, :]), mask=both, other=0.0)
        partial += weight[None, :, :] * seen.to(tl.float32)
        begin += WIDTH
    total += tl.sum(partial, 2)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    to = (image * num_rows)[:, None] + target[None, :]
    to = to * (out_height * out_width) + spot[:, None]
    tl.store(out + to, total.to(out.dtype.element_ty), mask=is_pixel[:, None] & is_row[None, :])


# fmt: off
@triton.jit(
    do_not_specialize=["size", "height", "width", "top", "left", "padded_height", "padded_width"]
)
@no_type_check
def pad(
    x, out, size, height, width, top, left, padded_height, padded_width,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):
    # fmt: on
    """Pads planes with zeros."""
    if EARLY:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    plane = i // (padded_height * padded_width)
    y = i // padded_width % padded_height - top
    column = i % padded_width - left
    inside = (y >= 0) & (y < height) & (column >= 0) & (column < width) & (i < size)
    pixel = tl.load(x + (plane * height + y) * width + column, mask=inside, other=0.0)
    tl.store(out + i, pixel, mask=i < size)
