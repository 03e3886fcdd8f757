"""Runs one operation of the engine by every variant, and finds writes outside of its output."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.memory import aligned
from sparsegate_runtime.engine.program import Operation, Program
from sparsegate_runtime.engine.structures import View
from sparsegate_runtime.kernels.library import KERNELS

GUARD = np.float32(-12345.5)
MARGIN = 600
"""Floats around every buffer: more than kernels may read beyond its end."""
WAYS = [
    (variant, threads)
    for variant in range(KERNELS.sg_variant() + 1 if KERNELS else 0)
    for threads in (1, 2)
]


def pytest_generate_tests(metafunc):
    if "way" in metafunc.fixturenames:
        metafunc.parametrize("way", WAYS, ids=lambda way: f"variant {way[0]} threads {way[1]}")


class Guarded:
    """Buffers with guard values around them: 0 is the arena, others are added in order."""

    def __init__(self):
        self.buffers = []

    def add(self, array):
        """Copies an array into a new buffer; returns the buffer's number."""
        array = np.ascontiguousarray(array)
        floats = array.reshape(-1).view(np.float32)
        room = aligned(floats.size + 2 * MARGIN)
        room[:] = GUARD
        room[MARGIN : MARGIN + floats.size] = floats
        self.buffers.append(room)
        return len(self.buffers) - 1

    def add_empty(self, size):
        """A new buffer of `size` floats, all with the guard's value."""
        return self.add(np.full(size, GUARD, np.float32))

    def content(self, number):
        """The floats of a buffer; fails if something was written around it."""
        room = self.buffers[number]
        assert (room[:MARGIN] == GUARD).all()
        assert (room[-MARGIN:] == GUARD).all()
        return room[MARGIN:-MARGIN]

    def run(self, kind, of, way, *, begin=0, end=0, scratch=0):
        """Runs the operation; the scratch memory holds NaN at first."""
        variant, threads = way
        program = Program([Operation(kind, of)], [(0, begin, end)], scratch=scratch)
        addresses = (ctypes.c_void_p * len(self.buffers))(
            *(room.ctypes.data + 4 * MARGIN for room in self.buffers)
        )
        memory = self.scratch(threads * scratch)
        start = memory.ctypes.data + 4 * MARGIN
        program.run(addresses, 0, 1, start, threads=threads, variant=variant)
        assert (memory[:MARGIN] == GUARD).all()
        assert (memory[-MARGIN:] == GUARD).all()

    def scratch(self, size):
        """Scratch memory that holds NaN, with guard values around it."""
        memory = aligned(size + 2 * MARGIN)
        memory[:] = GUARD
        memory[MARGIN : MARGIN + size] = np.nan
        return memory


@pytest.fixture
def guarded():
    """Buffers with guard values around them."""
    return Guarded()


@pytest.fixture
def view():
    """Makes a `View` of a buffer by its strides in floats."""

    def make(buffer, strides, offset=0):
        return View(buffer, offset, (ctypes.c_int64 * 6)(*strides))

    return make
