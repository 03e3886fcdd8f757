"""Triton kernel that multiplies chunks of sparse rows by one image."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
@no_type_check
def own_sums(x, FAR: tl.constexpr, OWNERS: tl.constexpr, NEAR: tl.constexpr):
    """Sums the numbers of each owner, which has NEAR adjacent numbers in each of FAR groups."""
    if NEAR > 1:
        x = tl.sum(tl.reshape(x, [FAR * OWNERS, NEAR]), 1)
    if FAR > 1:
        x = tl.sum(tl.reshape(x, [FAR, OWNERS]), 0)
    return x


@triton.jit
@no_type_check
def value_of(word, KIND: tl.constexpr):
    """Returns the upper half of a word in fp32. `words.kind_of` defines KIND."""
    if KIND == 0:  # bf16 is the upper half of fp32
        value = (word & -65536).to(tl.float32, bitcast=True)
    else:
        value = (word >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    return value


# fmt: off
@triton.jit(do_not_specialize=["used", "lines"])
@no_type_check
def linear_chunks(
    x, records, out, num_columns, used, lines,
    KIND: tl.constexpr, RELU: tl.constexpr, EACH: tl.constexpr, SLOTS: tl.constexpr,
    SIDE: tl.constexpr, THREADS: tl.constexpr, ROWS: tl.constexpr, FAR: tl.constexpr,
    LANES: tl.constexpr, NEAR: tl.constexpr, SHARED: tl.constexpr, TAIL: tl.constexpr,
    EARLY: tl.constexpr,
):
    # fmt: on
    """Multiplies a layer by one image.

    Every thread multiplies EACH words of one row. Then LANES threads of each row sum its chunks.
    A program has consecutive rows, and one warp stores them: scattered stores take 0.25 us longer.
    The program loads its whole record before it may read the image. SLOTS is EACH rounded up to a
    power of two; the compiler removes the unused slots. SIDE words of a thread are adjacent.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    lane = tl.arange(0, SLOTS * THREADS)
    is_word = (lane // SIDE % THREADS < used) & (lane < EACH * THREADS)
    at = lane // (THREADS * SIDE) * (used * SIDE) + lane % (THREADS * SIDE)
    word = tl.load(
        records + program * (lines * 32) + at, mask=is_word, other=0, eviction_policy="evict_first"
    )
    tail = records + (program + 1) * (lines * 32) - TAIL
    row = tl.arange(0, ROWS)
    bias = tl.load(tail + row).to(tl.float32, bitcast=True)
    begin = tl.load(tail + 2 * ROWS + 2)
    rows = tl.load(tail + 2 * ROWS + 3)
    spot = tl.arange(0, FAR * ROWS * LANES * NEAR)
    firsts = tail + ROWS + spot // (LANES * NEAR) % ROWS
    chunk = tl.load(firsts) + spot // (ROWS * LANES * NEAR) * (LANES * NEAR) + spot % (LANES * NEAR)
    is_chunk = chunk < tl.load(firsts + 1)
    chunk = tl.where(is_chunk, chunk, 0)
    if EARLY:
        cuda.gdc_wait()  # the previous kernel may still be writing x; the weights are complete
    column = tl.arange(0, SHARED)
    image = tl.load(x + column, mask=column < num_columns, other=0.0)
    tl.debug_barrier()  # issues all of these loads before the first wait
    product = value_of(word, KIND) * tl.gather(image, (word & 0xFFFF) >> 1, 0).to(tl.float32)
    if EACH < SLOTS:
        product = tl.where(lane < EACH * THREADS, product, 0.0)
    product = own_sums(product, SLOTS // SIDE, THREADS, SIDE)
    part = tl.where(is_chunk, tl.gather(product, chunk, 0), 0.0)
    part = own_sums(part, FAR, ROWS * LANES, NEAR)
    total = bias + tl.sum(tl.reshape(part, [ROWS, LANES]), 1)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + begin + row, total.to(out.dtype.element_ty), mask=row < rows)
