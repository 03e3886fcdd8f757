"""Lowers linear layers and convolutions, transposed ones too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import network as n
from .layers import layer
from .planner import Planner, only_in_lines
from .tensor import Tensor


def transposed(planner: Planner, node: n.TransposedConv) -> Tensor:
    """A convolution for each phase of the output, whose results are then interleaved."""
    only_in_lines(planner, "a transposed convolution")
    lines, pixels = (_phase_taps(node, axis) for axis in (0, 1))
    low = (min(t.first for t in lines), min(t.first for t in pixels))
    high = (max(t.last for t in lines), max(t.last for t in pixels))
    counts = tuple(-(-node.shape[2 + axis] // node.stride[axis]) for axis in (0, 1))
    outputs = node.weight.shape[1] * node.groups
    weight = _phase_weights(node, lines, pixels, low, high)
    inner = n.Conv(
        inputs=node.inputs,
        shape=(node.shape[0], len(weight), *counts),
        name=node.name,
        weight=weight,
        bias=None if node.bias is None else np.repeat(node.bias, prod(node.stride)),
        stride=(1, 1),
        padding=(
            (-low[0], counts[0] + high[0] - node.inputs[0].shape[2]),
            (-low[1], counts[1] + high[1] - node.inputs[0].shape[3]),
        ),
        dilation=(1, 1),
        groups=node.groups,
    )
    planner.borders.add(inner)
    sums = layer(planner, inner)
    parts = (node.shape[0], outputs, *node.stride, *counts)
    batch, rows, line, pixel = sums.strides
    steps = (batch, rows * prod(node.stride), rows * node.stride[1], rows, line, pixel)
    source = Tensor(sums.buffer, sums.offset, parts, steps)
    out = planner.images(node, node.shape)
    for y in range(node.stride[0]):
        for x in range(node.stride[1]):
            sizes = [
                -(-(node.shape[2] - y) // node.stride[0]),
                -(-(node.shape[3] - x) // node.stride[1]),
            ]
            to = out.slice(2, y, node.stride[0], sizes[0]).slice(3, x, node.stride[1], sizes[1])
            one = source.slice(4, 0, 1, sizes[0]).slice(5, 0, 1, sizes[1])
            one = one.slice(2, y, 1, 1).slice(3, x, 1, 1)
            flat = Tensor(
                one.buffer,
                one.offset,
                (*one.shape[:2], *one.shape[4:]),
                (*one.strides[:2], *one.strides[4:]),
            )
            planner.copy(flat, to)
    return out


@dataclass(frozen=True)
class PhaseTaps:
    """The taps of a transposed convolution for one phase of its output, with their shifts."""

    taps: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def first(self) -> int:
        """The smallest shift."""
        return min(self.shifts, default=0)

    @property
    def last(self) -> int:
        """The largest shift."""
        return max(self.shifts, default=0)


def _phase_taps(node: n.TransposedConv, axis: int) -> list[PhaseTaps]:
    step, gap, pad = node.stride[axis], node.dilation[axis], node.padding[axis]
    found = []
    for phase in range(step):
        taps = [
            t for t in range(node.weight.shape[2 + axis]) if (phase + pad - t * gap) % step == 0
        ]
        found.append(PhaseTaps(tuple(taps), tuple((phase + pad - t * gap) // step for t in taps)))
    return found


def _phase_weights(
    node: n.TransposedConv,
    lines: list[PhaseTaps],
    pixels: list[PhaseTaps],
    low: tuple[int, int],
    high: tuple[int, int],
) -> NDArray[np.float32]:
    """The weight of one convolution: [outputs * phases, inputs of a group, lines, pixels]."""
    inputs, outputs = node.weight.shape[:2]
    size = (high[0] - low[0] + 1, high[1] - low[1] + 1)
    each = inputs // node.groups
    made = np.zeros((node.groups, outputs, *node.stride, each, *size), np.float32)
    grouped = np.asarray(node.weight).reshape(node.groups, each, outputs, *node.weight.shape[2:])
    for y, one in enumerate(lines):
        for x, other in enumerate(pixels):
            for tap_y, shift_y in zip(one.taps, one.shifts, strict=True):
                for tap_x, shift_x in zip(other.taps, other.shifts, strict=True):
                    value = grouped[:, :, :, tap_y, tap_x].transpose(0, 2, 1)
                    made[:, :, y, x, :, shift_y - low[0], shift_x - low[1]] = value
    return made.reshape(node.groups * outputs * prod(node.stride), each, *size)


RULES: dict[type[n.Node], Any] = {
    n.Linear: layer,
    n.Conv: layer,
    n.TransposedConv: transposed,
}
