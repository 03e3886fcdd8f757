"""Triton kernels that do next to nothing: what a launch costs."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
def nothing(x):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Neither reads nor writes."""


@triton.jit
def least(x, out, EARLY: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    """Every program reads a number and writes it, as any layer must at least."""
    if EARLY:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()
    tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0)))


@triton.jit
def reads(x, out, num_columns, SIZE: tl.constexpr, EARLY: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    """Every program reads a whole image and writes one number, as a layer must whose rows need all of the image."""
    if EARLY:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()
    column = tl.arange(0, SIZE)
    whole = tl.load(x + column, mask=column < num_columns, other=0.0)
    tl.debug_barrier()  # all loads are under way before the first is waited for
    tl.store(out + tl.program_id(0), tl.max(whole, 0))
