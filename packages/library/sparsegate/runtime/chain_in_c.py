"""The structures of chain.h, which describe a chain of layers to the kernels in C."""

from __future__ import annotations

import ctypes

from sparsegate_runtime.engine import LONG, POINTER, CRows, CSlices


class CLayer(ctypes.Structure):
    """`Layer` of chain.h."""

    _fields_ = (
        *(
            (name, LONG)
            for name in (
                "is_linear",
                "relu",
                "pad_y",
                "pad_x",
                "stride_y",
                "stride_x",
                "height",
                "width",
            )
        ),
        *(
            (name, LONG)
            for name in ("input_size", "rows", "conv_height", "conv_width", "pool", "pool_stride")
        ),
        *((name, LONG) for name in ("out_height", "out_width", "reach_y", "reach_x")),
        *((name, LONG) for name in ("patch_lines", "patch_width", "slots")),
        *((name, POINTER) for name in ("inside", "bias", "work")),
        ("panel", CRows),
        ("single", CRows),
        ("slices", CSlices),
    )


class CChain(ctypes.Structure):
    """`Chain` of chain.h."""

    _fields_ = (
        ("layers", POINTER),
        *(
            (name, LONG)
            for name in (
                "num_layers",
                "channels",
                "in_height",
                "in_width",
                "out_size",
                "buffer_size",
            )
        ),
        *((name, LONG) for name in ("panel_rows", "single_rows", "vectors")),
    )


class CCall(ctypes.Structure):
    """`Call` of chain.h."""

    _fields_ = (
        ("chain", POINTER),
        *((name, LONG) for name in ("single", "variant", "work", "worth_a_thread")),
    )
