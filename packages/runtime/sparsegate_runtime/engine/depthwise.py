"""Lowers depthwise convolutions of stride two to a kernel that reads their input where it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import structures as c
from .kept import num_kept
from .network import Conv

if TYPE_CHECKING:
    from .sums import Sums

WORTH = 0.45
"""Share of kept weights from which on the kernel for all weights is faster."""
SIZES = (3, 5)
"""Taps along a side that the kernel has code for."""


class Depthwise(c.Structure):
    """`Depthwise` of engine.h."""

    _fields_ = (
        *((name, c.LONG) for name in ("channels", "images", "height", "width", "taps")),
        *((name, c.POINTER) for name in ("weight", "bias")),
        *((name, c.Place) for name in ("input", "out")),
        *((name, c.LONG) for name in ("in_image", "in_line", "out_image", "out_line")),
        ("finish", c.Finish),
    )


@dataclass(frozen=True)
class Lines:
    """Where a depthwise convolution reads and writes its lines, in floats."""

    first: int
    """From the first pixel of the input to what the first tap of the first pixel reads."""
    in_image: int
    in_line: int
    out_line: int


def suits(node: Conv) -> bool:
    """Whether the kernel can run a convolution, and is faster than the one for sparse weights."""
    rows, inputs, *taps = node.weight.shape
    is_depthwise = inputs == 1 and rows == node.groups == node.inputs[0].shape[1]
    return (
        is_depthwise
        and taps[0] == taps[1]
        and taps[0] in SIZES
        and node.stride == (2, 2)
        and node.dilation == (1, 1)
        and min(map(min, node.padding)) >= 0
        and num_kept(node.weight) >= WORTH * node.weight.size
    )


def depthwise(sums: Sums, lines: Lines) -> Callable[[], c.Structure]:
    """Makes the operation."""
    node, out = sums.node, sums.out
    assert isinstance(node, Conv)
    weight = np.ascontiguousarray(node.weight, np.float32)
    bias = np.zeros(len(weight), np.float32)
    if node.bias is not None:
        bias[:] = node.bias
    images, channels, height, width = node.shape

    def make() -> c.Structure:
        source = sums.source.place(sums.source_channel)
        source.offset += lines.first
        made = Depthwise(
            channels, images, height, width, weight.shape[2],
            weight.ctypes.data, bias.ctypes.data, source, out.place(sums.out_channel),
            lines.in_image, lines.in_line, out.strides[0], lines.out_line, c.Finish(),
        )  # fmt: skip
        made.keep = (weight, bias)
        return made

    return make
