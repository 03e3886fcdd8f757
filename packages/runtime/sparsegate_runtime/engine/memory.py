"""Memory for kernels, in large pages where the system has them: small ones cost a look-up at almost every step."""

from __future__ import annotations

import mmap
import threading

import numpy as np
from numpy.typing import NDArray

LINE = 64
"""Bytes of a cache line, where memory begins."""
LARGE = 2**21
"""Bytes of a large page; less memory is not worth one."""


def aligned(size: int) -> NDArray[np.float32]:
    """So many floats, zeros, from a cache line's begin on.

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


_MEMORY = threading.local()


def scratch(size: int) -> int:
    """The address of memory of this thread's own, for so many floats; it is kept from call to call."""
    if getattr(_MEMORY, "size", -1) < size:
        _MEMORY.array, _MEMORY.size = None, -1  # the old goes first
        _MEMORY.array, _MEMORY.size = aligned(size), size
        _MEMORY.address = _MEMORY.array.ctypes.data
    found: int = _MEMORY.address
    return found
