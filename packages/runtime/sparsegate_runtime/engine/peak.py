"""Measures the peak rate of multiplications with weights, with all data in the L1 cache."""

from __future__ import annotations

import ctypes
import time
from functools import cache

import numpy as np

from sparsegate_runtime.kernels import KERNELS

from . import structures as c
from .matrix import Rows, Weights
from .memory import aligned
from .program import Operation, Program
from .structures import Kind

ROWS, COLUMNS, POSITIONS = 4, 256, 256
CHANNELS = 16
"""Channels of the input: with its 256 positions, 16 KiB."""
STEPS, RUNS = 100, 12


@cache
def peak(variant: int) -> float:
    """The most floating-point operations per second that the sparse kernel reaches on one core.

    Each multiply-add loads its input from the first-level cache. No layer can be faster than that,
    so it is what layers are compared with.
    """
    if KERNELS is None:
        return 0.0
    row, column = (one.reshape(-1) for one in np.indices((ROWS, COLUMNS)))
    value = np.full(row.size, 1e-3, np.float32)
    offsets = 4 * POSITIONS * (column % CHANNELS)
    rows = Rows.of(Weights(row, column, value, ROWS), offsets, np.zeros_like(row))
    work, bias = Weights(row, column, value, ROWS).before_row, np.zeros(ROWS, np.float32)
    arena = aligned((CHANNELS + ROWS) * POSITIONS + 512)
    arena[:] = 1.0
    out = c.Place(0, CHANNELS * POSITIONS, POSITIONS)
    multiply = c.Multiply(
        ROWS,
        rows.as_c(),
        bias.ctypes.data,
        work.ctypes.data,
        c.Place(0, 0, POSITIONS),
        out,
        c.Finish(-np.inf, 0, None, None),
        16,
    )
    steps = [(0, 0, POSITIONS)] * STEPS
    program = Program([Operation(Kind.MULTIPLY, multiply)], steps, scratch=0)
    buffers = (ctypes.c_void_p * 1)(arena.ctypes.data)
    best = min(_seconds(program, buffers, variant) for _ in range(RUNS))
    return 2.0 * len(row) * POSITIONS * STEPS / best


def _seconds(program: Program, buffers: object, variant: int) -> float:
    began = time.perf_counter()
    program.run(buffers, 0, STEPS, 0, variant=variant)
    return time.perf_counter() - began
