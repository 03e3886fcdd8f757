"""Triton kernel: chunks of sparse rows times one image."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
@no_type_check
def own_sums(x, FAR: tl.constexpr, OWNERS: tl.constexpr, NEAR: tl.constexpr):
    """What every owner has, added up: NEAR numbers side by side, FAR times, all owners' between them."""
    if NEAR > 1:
        x = tl.sum(tl.reshape(x, [FAR * OWNERS, NEAR]), 1)
    if FAR > 1:
        x = tl.sum(tl.reshape(x, [FAR, OWNERS]), 0)
    return x


@triton.jit
@no_type_check
def value_of(word, KIND: tl.constexpr):
    """The upper half of a word, in fp32; the kinds are those of `triton_words`."""
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
    KIND: tl.constexpr, RELU: tl.constexpr, EACH: tl.constexpr, SLOTS: tl.constexpr, SIDE: tl.constexpr,
    THREADS: tl.constexpr, ROWS: tl.constexpr, FAR: tl.constexpr, LANES: tl.constexpr, NEAR: tl.constexpr,
    SHARED: tl.constexpr, TAIL: tl.constexpr, EARLY: tl.constexpr,
):
    # fmt: on
    """One image: every thread multiplies EACH words of one row; then LANES threads of each row add its chunks up.

    A program's rows are neighbours, written by one warp: outputs that are scattered take a quarter of a microsecond
    longer. All of its record is loaded before the image may be read. SLOTS is EACH, rounded up to a power of two;
    nothing is left of slots that are too many when it is compiled. SIDE words of a thread lie side by side.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    lane = tl.arange(0, SLOTS * THREADS)
    is_word = (lane // SIDE % THREADS < used) & (lane < EACH * THREADS)
    at = lane // (THREADS * SIDE) * (used * SIDE) + lane % (THREADS * SIDE)
    word = tl.load(records + program * (lines * 32) + at, mask=is_word, other=0, eviction_policy="evict_first")
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
        cuda.gdc_wait()  # the weights above are there before the previous kernel has ended; x is not
    column = tl.arange(0, SHARED)
    image = tl.load(x + column, mask=column < num_columns, other=0.0)
    tl.debug_barrier()  # all of these loads are under way before the first is waited for
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
