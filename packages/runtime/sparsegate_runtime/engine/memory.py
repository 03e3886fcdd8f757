"""Allocates memory for kernels, in large pages where the system has them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import threading

import numpy as np
from numpy.typing import NDArray

LINE = 64
"""Bytes of a cache line; memory is aligned to it."""
LARGE = 2**21
"""Bytes of a large page. Less memory is allocated in small pages."""


def aligned(size: int) -> NDArray[np.float32]:
    """`size` floats, all zero, aligned to a cache line.

    >>> aligned(3)
    array([0., 0., 0.], dtype=float32)
    """
    if 4 * size < LARGE:
        room = np.zeros(size + LINE // 4, np.float32)
        return room[-room.ctypes.data % LINE // 4 :][:size]
    memory = mmap.mmap(-1, 4 * size + LARGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(memory, np.float32)
    return room[-room.ctypes.data % LARGE // 4 :][:size]


def give_back() -> None:
    """Gives memory that is not in use back to the system; the C library keeps it otherwise."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


_MEMORY = threading.local()


def scratch(size: int) -> int:
    """The address of scratch memory for `size` floats, reused by later calls of this thread."""
    if getattr(_MEMORY, "size", -1) < size:
        _MEMORY.array, _MEMORY.size = None, -1  # the old goes first
        _MEMORY.array, _MEMORY.size = aligned(size), size
        _MEMORY.address = _MEMORY.array.ctypes.data
    found: int = _MEMORY.address
    return found
