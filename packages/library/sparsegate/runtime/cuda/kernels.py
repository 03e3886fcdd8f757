"""Triton kernels that multiply bands of sparse rows by one image or by several."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
@no_type_check
def locate(program, bands, ROWS: tl.constexpr, NUM_BANDS: tl.constexpr):
    """Finds the rows of a program.

    Returns its first row, the rows left in the band, its first word and the width of its rows.
    Rows and widths of bands are arguments, so the weights are the first thing that is read. A
    number n is passed as 16 n + 2, because Triton compiles another kernel for 1 and for multiples
    of 16.
    """
    row = 0
    start = 0
    first = 0
    rows = bands[0] >> 4
    width = bands[1] >> 4
    for i in tl.static_range(1, NUM_BANDS):
        next_first = first + (rows + ROWS - 1) // ROWS
        is_later = program >= next_first
        start = tl.where(is_later, start + rows * width, start)
        row = tl.where(is_later, row + rows, row)
        first = tl.where(is_later, next_first, first)
        rows = tl.where(is_later, bands[2 * i] >> 4, rows)
        width = tl.where(is_later, bands[2 * i + 1] >> 4, width)
    inside = (program - first) * ROWS
    # Times 4, so that the compiler knows that rows begin at multiples of 16 bytes.
    return row + inside, rows - inside, (start + inside * width) * 4, width * 4


@triton.jit
@no_type_check
def fetch(columns, values, at, mask, KIND: tl.constexpr):
    """Loads stored weights: columns and values, or whole words twice."""
    column = tl.load(columns + at, mask=mask, other=0)
    if KIND >= 2:
        value = tl.load(values + at, mask=mask, other=0.0)
    else:
        value = column
    return column, value


@triton.jit
@no_type_check
def decode(column, value, KIND: tl.constexpr):
    """Returns columns, and values in fp32. `words.kind_of` defines KIND."""
    if KIND == 0:  # bf16 is the upper half of fp32
        spot = column & 0xFFFF
        weight = (column & -65536).to(tl.float32, bitcast=True)
    elif KIND == 1:
        spot = column & 0xFFFF
        weight = (column >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        spot = column.to(tl.int32) & 0xFFFF if KIND == 2 else column
        weight = value.to(tl.float32)
    return spot, weight


@triton.jit
@no_type_check
def look_up(x, whole, spot, here, SHARED: tl.constexpr):
    """Loads the inputs at the columns `spot`, zero where `here` is false.

    If SHARED, `whole` holds a copy of all inputs in shared memory; otherwise x is read.
    """
    if SHARED > 0:
        seen = tl.where(here, tl.gather(whole, spot, 0), 0.0)
    else:
        seen = tl.load(x + spot, mask=here, other=0.0)
    return seen.to(tl.float32)


# fmt: off
@triton.jit
@no_type_check
def linear_one(
    x, columns, values, bias, order, out, bands, num_columns,
    KIND: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    NUM_BANDS: tl.constexpr, EARLY: tl.constexpr, SHARED: tl.constexpr, STEP: tl.constexpr,
    LANES: tl.constexpr, ONCE: tl.constexpr,
):
    # fmt: on
    """Multiplies a layer by one image: ROWS rows per program, WIDTH words of each at a time.

    If ONCE, all words of a row fit into WIDTH. Blocks of words are one-dimensional. In two
    dimensions the compiler would lay words out along rows and their inputs along columns, and
    would move everything between the two through shared memory. A block has STEP words of every
    row, then the next STEP of every row, so that the same LANES threads keep a row. These threads
    also store it, as a block of LANES equal rows of which one is stored, because one-dimensional
    outputs would go through shared memory.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
    row, rows, start, width = locate(tl.program_id(0), bands, ROWS, NUM_BANDS)
    lane = tl.arange(0, ROWS * WIDTH)
    k = lane // (ROWS * STEP) * STEP + lane % STEP
    is_row = lane // STEP % ROWS < rows
    at = start + (lane // STEP % ROWS) * width + k
    here = (k < width) & is_row
    column, value = fetch(columns, values, at, here, KIND)
    which = tl.arange(0, ROWS)
    target = tl.load(order + row + which, mask=which < rows, other=0)
    total = tl.load(bias + row + which, mask=which < rows, other=0.0)
    if EARLY:
        cuda.gdc_wait()  # the previous kernel may still be writing x; the weights are complete
    whole = x
    if SHARED > 0:
        everything = tl.arange(0, SHARED)
        whole = tl.load(x + everything, mask=everything < num_columns, other=0.0)
        tl.debug_barrier()  # issues all of these loads before the first wait
    if ONCE:
        spot, weight = decode(column, value, KIND)
        product = weight * look_up(x, whole, spot, here, SHARED)
        partial = tl.sum(tl.reshape(product, [WIDTH // STEP, ROWS, STEP]), 0)
    else:
        partial = tl.zeros([ROWS, STEP], tl.float32)
        begin = 0
        while begin < width:
            spot, weight = decode(column, value, KIND)
            here = (begin + k < width) & is_row
            more = (begin + WIDTH + k < width) & is_row
            column, value = fetch(columns, values, at + (begin + WIDTH), more, KIND)
            product = weight * look_up(x, whole, spot, here, SHARED)
            partial += tl.sum(tl.reshape(product, [WIDTH // STEP, ROWS, STEP]), 0)
            begin += WIDTH
    total += tl.sum(partial, 1)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    to = out + tl.broadcast_to(target[None, :], [LANES, ROWS])
    is_first = (tl.arange(0, LANES) == 0)[:, None] & (which < rows)[None, :]
    total = tl.broadcast_to(total[None, :], [LANES, ROWS])
    tl.store(to, total.to(out.dtype.element_ty), mask=is_first)


# fmt: off
@triton.jit(do_not_specialize=["num_columns", "num_rows", "num_images", "x_row"])
@no_type_check
def linear_many(
    x, columns, values, bias, order, out, bands, num_columns, num_rows, num_images, x_row,
    KIND: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    IMAGES: tl.constexpr, NUM_BANDS: tl.constexpr, EARLY: tl.constexpr, SPREAD: tl.constexpr,
):
    # fmt: on
    """Multiplies a layer by a panel of IMAGES images.

    The axes of x are [panel][column][image] if SPREAD, and [image][column] otherwise.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
    row, rows, start, width = locate(tl.program_id(0), bands, ROWS, NUM_BANDS)
    which = tl.arange(0, ROWS)
    is_row = which < rows
    start += which * width
    target = tl.load(order + row + which, mask=is_row, other=0)
    intercept = tl.load(bias + row + which, mask=is_row, other=0.0)
    panel = tl.program_id(1).to(tl.int64)
    image = tl.arange(0, IMAGES)
    is_image = panel * IMAGES + image < num_images
    k = tl.arange(0, WIDTH)
    mask = is_row[:, None] & (k[None, :] < width)
    column, value = fetch(columns, values, start[:, None] + k[None, :], mask, KIND)
    if EARLY:
        cuda.gdc_wait()
    if SPREAD:
        x += panel * num_columns * IMAGES
    else:
        x += panel * IMAGES * x_row
    partial = tl.zeros([ROWS, WIDTH, IMAGES], tl.float32)
    begin = 0
    while begin < width:
        spot, weight = decode(column, value, KIND)
        here = mask
        k = begin + WIDTH + tl.arange(0, WIDTH)
        mask = is_row[:, None] & (k[None, :] < width)
        column, value = fetch(columns, values, start[:, None] + k[None, :], mask, KIND)
        if SPREAD:  # loads whole vectors of images; the last panel is padded with zeros
            at = spot[:, :, None] * IMAGES + image[None, None, :]
            seen = tl.load(x + at, mask=here[:, :, None], other=0.0)
        else:
            at = spot[:, :, None] + (image * x_row)[None, None, :]
            seen = tl.load(x + at, mask=here[:, :, None] & is_image[None, None, :], other=0.0)
        partial += weight[:, :, None] * seen.to(tl.float32)
        begin += WIDTH
    total = tl.sum(partial, 1) + intercept[:, None]
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    to = (panel * IMAGES + image)[None, :] * num_rows + target[:, None]
    tl.store(out + to, total.to(out.dtype.element_ty), mask=is_row[:, None] & is_image[None, :])


# fmt: off
@triton.jit(do_not_specialize=["num_columns", "num_images", "x_row"])
@no_type_check
def spread(
    x, out, num_columns, num_images, x_row,
    COLUMNS: tl.constexpr, IMAGES: tl.constexpr, EARLY: tl.constexpr,
):
    # fmt: on
    """Transposes [image][column] to [panel][column][image] and pads the last panel with zeros."""
    if EARLY:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()
    panel = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    image = panel * IMAGES + tl.arange(0, IMAGES)
    is_column = (column < num_columns)[None, :]
    is_input = is_column & (image < num_images)[:, None]
    tile = tl.load(x + image[:, None] * x_row + column[None, :], mask=is_input, other=0.0)
    to = (panel * num_columns + column)[None, :] * IMAGES + tl.arange(0, IMAGES)[:, None]
    tl.store(out + to, tile, mask=is_column)
