"""The structures of engine.h, as ctypes sees them; engine.h explains every field."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

from .matrix import CPanels, CRows, CSlices

POINTER, LONG, FLOAT, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int32
MOST_DIMS, MOST_INPUTS, MOST_CODE, MOST_REGISTERS = 6, 6, 24, 10
DIMS = LONG * MOST_DIMS
REPEATS = -(2**63)
"""The stride of sixteen floats that repeat."""


class Kind(IntEnum):
    """Kinds of operations, by the numbers of engine.h."""

    POINTWISE = 0
    MULTIPLY = 1
    DENSE_MULTIPLY = 2
    MATRIX_VECTOR = 3
    MATRIX_MULTIPLY = 4
    ATTENTION = 5
    CHANNEL_NORM = 6
    GROUP_NORM = 7
    SOFTMAX = 8
    REDUCE = 9
    COPY = 10
    FILL = 11
    PHASES = 12
    POOL = 13
    UPSAMPLE = 14
    EMBEDDING = 15
    RECURRENT = 16
    CAST = 17
    DEPTHWISE = 18
    CACHED_ATTENTION = 19


class Structure(ctypes.Structure):
    """A structure that keeps the arrays alive that its pointers point to."""

    keep: tuple[Any, ...] = ()


class Place(Structure):
    """`Place` of engine.h."""

    _fields_ = (("buffer", LONG), ("offset", LONG), ("stride", LONG))


class View(Structure):
    """`View` of engine.h."""

    _fields_ = (("buffer", LONG), ("offset", LONG), ("stride", DIMS))


class Instruction(Structure):
    """`Instruction` of engine.h."""

    _fields_ = (("function", INT), ("to", INT), ("a", INT), ("b", INT), ("x", FLOAT), ("y", FLOAT))


class Pointwise(Structure):
    """`Pointwise` of engine.h."""

    _fields_ = (
        ("dims", LONG),
        ("shape", DIMS),
        ("num_inputs", LONG),
        ("num_code", LONG),
        ("result", LONG),
        ("inputs", View * MOST_INPUTS),
        ("out", View),
        ("code", Instruction * MOST_CODE),
        ("inside", POINTER),
    )


class Finish(Structure):
    """`Finish` of engine.h."""

    _fields_ = (
        *(("least", FLOAT), ("most", FLOAT), ("inside", POINTER), ("then", POINTER)),
        *(("adds", LONG), ("added", Place)),
    )


class Apart(Structure):
    """`Apart` of engine.h."""

    _fields_ = (("line", LONG), ("in_line", LONG), ("pixels", LONG))


class Multiply(Structure):
    """`Multiply` of engine.h."""

    _fields_ = (
        ("num_rows", LONG),
        ("rows", CRows),
        ("bias", POINTER),
        ("work", POINTER),
        ("input", Place),
        ("out", Place),
        ("finish", Finish),
        ("tile", LONG),
        ("apart", Apart),
    )


class DenseMultiply(Structure):
    """`DenseMultiply` of engine.h."""

    _fields_ = (
        ("num_rows", LONG),
        ("num_inputs", LONG),
        ("group", LONG),
        ("offset", POINTER),
        ("weight", POINTER),
        ("bias", POINTER),
        ("input", Place),
        ("out", Place),
        ("finish", Finish),
        ("block", LONG),
    )


class MatrixVector(Structure):
    """`MatrixVector` of engine.h."""

    _fields_ = (
        ("num_rows", LONG),
        ("num_inputs", LONG),
        ("slices", CSlices),
        ("panels", CPanels),
        ("dense", POINTER),
        ("bias", POINTER),
        ("input", Place),
        ("out", Place),
        ("in_position", LONG),
        ("out_position", LONG),
        ("finish", Finish),
    )


class MatrixMultiply(Structure):
    """`MatrixMultiply` of engine.h."""

    _fields_ = (
        ("batch", LONG * 3),
        ("rows", LONG),
        ("inner", LONG),
        ("columns", LONG),
        ("a", View),
        ("b", View),
        ("out", View),
        ("scale", FLOAT),
    )


class Attention(Structure):
    """`Attention` of engine.h."""

    _fields_ = (
        *((name, LONG) for name in ("images", "heads", "kv_heads", "queries", "keys")),
        *((name, LONG) for name in ("features", "value_features")),
        ("q", View),
        ("k", View),
        ("v", View),
        ("out", View),
        ("mask", View),
        ("mask_kind", LONG),
        ("causal", LONG),
        ("scale", FLOAT),
    )

    @property
    def scratch(self) -> int:
        """Floats of scratch memory for one thread: `sg_attention_scratch` of engine.h."""
        return 64 * (int(self.features) + 128 + int(self.value_features)) + 16


class ChannelNorm(Structure):
    """`ChannelNorm` of engine.h."""

    _fields_ = (
        ("channels", LONG),
        ("rms", LONG),
        ("eps", FLOAT),
        ("unused", INT),
        ("weight", POINTER),
        ("bias", POINTER),
        ("input", Place),
        ("out", Place),
        ("inside", POINTER),
    )


class GroupNorm(Structure):
    """`GroupNorm` of engine.h."""

    _fields_ = (
        ("images", LONG),
        ("channels", LONG),
        ("groups", LONG),
        ("lines", LONG),
        ("width", LONG),
        ("eps", FLOAT),
        ("unused", INT),
        ("weight", POINTER),
        ("bias", POINTER),
        ("input", View),
        ("out", View),
    )


class Softmax(Structure):
    """`Softmax` of engine.h."""

    _fields_ = (("dims", LONG), ("shape", DIMS), ("log", LONG), ("input", View), ("out", View))


class Reduce(Structure):
    """`Reduce` of engine.h."""

    _fields_ = (
        ("kind", LONG),
        ("dims", LONG),
        ("reduced", LONG),
        ("shape", DIMS),
        ("input", View),
        ("out", View),
        *(("share", FLOAT), ("unused", INT)),
    )


class Copy(Structure):
    """`Copy` of engine.h."""

    _fields_ = (("dims", LONG), ("shape", DIMS), ("input", View), ("out", View))


class Fill(Structure):
    """`Fill` of engine.h."""

    _fields_ = (("channels", LONG), ("out", Place), ("value", FLOAT), ("unused", INT))


class Phases(Structure):
    """`Phases` of engine.h."""

    _fields_ = (
        *((name, LONG) for name in ("images", "channels", "height", "width")),
        ("input", View),
        *((name, LONG) for name in ("stride_y", "stride_x", "first_y", "first_x")),
        ("phases_y", LONG),
        ("phases_x", LONG),
        ("out", Place),
        *((name, LONG) for name in ("phase", "lead", "plane", "line", "rows", "columns")),
        ("fill", FLOAT),
        ("unused", INT),
    )


class Pool(Structure):
    """`Pool` of engine.h."""

    _fields_ = (
        ("channels", LONG),
        ("taps", LONG),
        ("largest", LONG),
        ("offset", POINTER),
        ("scale", POINTER),
        ("input", Place),
        ("out", Place),
        ("inside", POINTER),
        ("apart", Apart),
    )


class Upsample(Structure):
    """`Upsample` of engine.h."""

    _fields_ = (
        *((name, LONG) for name in ("images", "channels", "out_height", "out_width")),
        ("input", View),
        ("out", View),
        *((name, POINTER) for name in ("line0", "line1", "line_weight")),
        *((name, POINTER) for name in ("pixel0", "pixel1", "pixel_weight")),
    )


class Embedding(Structure):
    """`Embedding` of engine.h."""

    _fields_ = (
        ("rows", LONG),
        ("features", LONG),
        ("table", POINTER),
        ("dims", LONG),
        ("shape", DIMS),
        ("id", View),
        ("out", View),
        ("feature", LONG),
    )


class Cast(Structure):
    """`Cast` of engine.h."""

    _fields_ = (("dims", LONG), ("shape", DIMS), ("bytes", LONG), ("input", View), ("out", View))


class RecurrentSteps(Structure):
    """`RecurrentSteps` of engine.h."""

    _fields_ = (
        *((name, LONG) for name in ("cell", "hidden", "num_rows")),
        *((name, LONG) for name in ("steps", "images", "reverse", "single")),
        ("rows", CRows),
        ("slices", CSlices),
        ("bias", POINTER),
        ("input", View),
        ("out", View),
    )


class COperation(Structure):
    """`Operation` of engine.h."""

    _fields_ = (("kind", LONG), ("of", POINTER))


class CStep(Structure):
    """`Step` of engine.h."""

    _fields_ = (("operation", LONG), ("begin", LONG), ("end", LONG))


class CProgram(Structure):
    """`Program` of engine.h."""

    _fields_ = (("operations", POINTER), ("steps", POINTER), ("num_steps", LONG), ("scratch", LONG))
