"""Finds where linear layers and convolutions read their inputs, and lays out their results."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from . import network as n
from . import structures as c
from .borders import reads_in_place
from .depthwise import Lines, suits
from .in_lines import InLines
from .planner import Planner
from .sums import Sums, Taps, emit, is_few
from .tensor import Tensor


def sums_of(planner: Planner, node: n.Linear | n.Conv) -> Sums:
    """Where a layer reads and writes."""
    return _linear(planner, node) if isinstance(node, n.Linear) else _conv(planner, node)


def layer(planner: Planner, node: n.Linear | n.Conv) -> Tensor:
    """A layer whose sums nothing finishes."""
    made = sums_of(planner, node)
    emit(planner, made, c.Finish(-np.inf, 0, None, None), written_for=node)
    return made.out


def _linear(planner: Planner, node: n.Linear) -> Sums:
    source = planner.values[node.inputs[0]]
    last = len(source.shape) - 1
    source = planner.arranged(source, last)
    return _pointwise_layer(planner, node, source, last)


def _pointwise_layer(
    planner: Planner, node: n.Linear | n.Conv, source: Tensor, channel: int
) -> Sums:
    """A product at every position on its own."""
    positions = source.positions(channel)
    assert positions is not None
    extent, room = positions.count, positions.extent
    groups = node.groups if isinstance(node, n.Conv) else 1
    few = is_few(extent, node.weight.size // max(1, len(node.weight)), groups)
    out = planner.allocate(node.shape, channel, source, room, tight=few)
    columns = node.weight.size // max(1, len(node.weight))
    zero = np.zeros(columns, np.int64)
    return Sums(node, source, channel, out, channel, extent, Taps(np.arange(columns), zero), groups)


def _conv(planner: Planner, node: n.Conv) -> Sums:
    source = planner.values[node.inputs[0]]
    taps = node.weight.shape[2:]
    if prod(taps) == 1 and node.stride == (1, 1) and not any(map(any, node.padding)):
        return _pointwise_layer(planner, node, planner.arranged(source, 1), 1)
    if isinstance(planner.layout, InLines) and reads_in_place(node):
        return _conv_on_grid(planner, node, source)
    before = (node.padding[0][0], node.padding[1][0])
    out = planner.images(node, node.shape)
    phases = planner.layout.phases(node, taps, node.dilation, node.stride, before, 0.0)
    return Sums(
        node,
        phases.tensor,
        0,
        out,
        1,
        planner.layout.extent(out),
        _taps(node, phases.offsets.astype(np.int64) // 4),
        node.groups,
        phases.apart,
    )


def _conv_on_grid(planner: Planner, node: n.Conv, source: Tensor) -> Sums:
    """A convolution that reads its neighbors and the zeros around images where they lie."""
    where = node if node.stride == (1, 1) else node.inputs[0]
    grid = planner.borders.grid(where)
    plane = grid.line * grid.lines
    fits = source.strides[0] == plane and source.strides[2:] == (grid.line, 1)
    padded = any(map(any, node.padding))
    first = node.padding[0][0] * grid.line + node.padding[1][0]
    if (
        source.buffer.slot
        or not fits
        or (padded and not source.buffer.is_clean)
        or (source.buffer.lead < first)
    ):
        source = planner.layout.on_grid(where, source)
    (pad_y, _), (pad_x, _) = node.padding
    lines = np.arange(node.weight.shape[2]) * node.dilation[0] - pad_y
    pixels = np.arange(node.weight.shape[3]) * node.dilation[1] - pad_x
    offsets = (lines[:, None] * grid.line + pixels[None, :]).reshape(-1)
    out = planner.images(node, node.shape)
    extent = planner.layout.extent(out)
    where_from = None
    if suits(node):
        where_from = Lines(-first, plane, grid.line, planner.borders.grid(node).line)
    return Sums(
        node, source, 1, out, 1, extent, _taps(node, offsets), node.groups, lines=where_from
    )


def _taps(node: n.Conv, offsets: NDArray[np.int64]) -> Taps:
    channels = node.weight.shape[1]
    return Taps(np.repeat(np.arange(channels), len(offsets)), np.tile(offsets, channels))
