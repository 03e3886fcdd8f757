"""Lowers depthwise convolutions to a kernel of their own, which reads each pixel once for several lines."""

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
STRIDES = {3: (1, 2), 5: (1, 2), 7: (1,)}
"""The strides of kernels, by their size."""


@dataclass(frozen=True)
class Lines:
    """Where a depthwise convolution reads and writes its lines, in floats."""

    first: int
    """From the first pixel of the input to what the first tap of the first pixel reads."""
    in_image: int
    in_line: int
    out_line: int
    pixel: int
    """16 if images lie side by side, 1 otherwise."""


def suits(node: Conv) -> bool:
    """Whether the kernel can run a convolution, and is faster than the one for sparse weights."""
    rows, inputs, *taps = node.weight.shape
    size, stride = taps[0], node.stride[0]
    is_depthwise = inputs == 1 and rows == node.groups == node.inputs[0].shape[1]
    return (
        is_depthwise
        and tuple(taps) == (size, size)
        and node.stride == (stride, stride)
        and stride in STRIDES.get(size, ())
        and node.dilation == (1, 1)
        and min(map(min, node.padding)) >= 0
        and num_kept(node.weight) >= WORTH * node.weight.size
    )


def depthwise(sums: Sums, lines: Lines) -> Callable[[], c.Structure]:
    """Makes the operation."""
    node, out = sums.node, sums.out
    assert isinstance(node, Conv)
    weight = np.ascontiguousarray(node.weight, np.float32)
    bias = np.zeros(len(weight), np.float32) if node.bias is None else np.float32(node.bias)
    images, channels, height, width = node.shape
    is_wide = lines.pixel > 1

    def make() -> c.Structure:
        source = sums.source.place(sums.source_channel)
        source.offset += lines.first
        made = c.Depthwise(
            channels, 1 if is_wide else images, height, width,
            weight.shape[2], node.stride[0], lines.pixel,
            weight.ctypes.data, bias.ctypes.data, source, out.place(sums.out_channel),
            lines.in_image, lines.in_line, out.strides[0], lines.out_line, c.Finish(),
        )  # fmt: skip
        made.keep = (weight, bias)
        return made

    return make


def reach(sums: Sums, lines: Lines) -> tuple[int, int]:
    """Positions that a step reads before and after its own; it computes the whole of its last line."""
    node = sums.node
    assert isinstance(node, Conv)
    if node.stride[0] > 1:  # its input is complete before
        return 0, lines.out_line
    size = len(node.weight[0][0]) - 1
    return -lines.first, max(0, lines.first + size * (lines.in_line + 1)) + lines.out_line
