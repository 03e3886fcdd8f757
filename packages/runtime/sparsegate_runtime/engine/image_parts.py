"""The header and tables of a program image, as ctypes sees them; image.h explains every field."""

from __future__ import annotations

import ctypes

GUARD = 512
"""Floats at the end of an image that kernels may read."""
LINE = 64
MOST_NAME = 47
"""Bytes of the name of an input or output."""
CONSTANT = 2
"""The kind of a buffer that no input changes; 0 is an input, 1 an output."""
KINDS = ("float32", "int64", "bool")
WIDTHS = (4, 8, 1)
INSTRUCTION_SETS = {"plain": 0, "avx2": 1, "avx512": 2, "neon": 3, "wasm-simd": 4}
"""The numbers of the instruction sets that an image can be planned for."""


class Header(ctypes.Structure):
    """`ImageHeader` of image.h."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("checksum", ctypes.c_uint32),
        *((name, ctypes.c_int64) for name in ("size", "variant", "arena", "scratch")),
        *((name, ctypes.c_int64) for name in ("num_inputs", "num_outputs", "num_buffers")),
        *((name, ctypes.c_int64) for name in ("num_operations", "num_steps", "structures")),
    )


class ImageTensor(ctypes.Structure):
    """`SgTensor` of image.h."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("buffer", ctypes.c_int64),
        ("name", ctypes.c_char * (MOST_NAME + 1)),
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of every dimension."""
        return tuple(self.sizes[: self.dims])

    @property
    def num_bytes(self) -> int:
        """Bytes of all elements."""
        count = WIDTHS[self.kind]
        for size in self.shape:
            count *= size
        return count


class ImageBuffer(ctypes.Structure):
    """`ImageBuffer` of image.h."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("kind", "index", "at", "bytes"))
