"""Lowers norms, softmax and reductions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from . import network as n
from . import structures as c
from .planner import Planner, only_in_lines, view_of
from .structures import Kind
from .tensor import Tensor


def layer_norm(planner: Planner, node: n.LayerNorm) -> Tensor:
    """Over the channels of every position."""
    channel = len(node.shape) - 1
    source = planner.arranged(planner.values[node.inputs[0]], channel)
    positions = source.positions(channel)
    assert positions is not None
    out = planner.allocate(node.shape, channel, source, positions.extent)
    weight, bias = (
        None if one is None else np.ascontiguousarray(one, np.float32)
        for one in (node.weight, node.bias)
    )
    border = planner.borders.value(node)
    written = planner.layout.written(out, channel, border)
    mask = written.mask

    def make() -> c.Structure:
        made = c.ChannelNorm(
            node.shape[channel],
            int(node.rms),
            node.eps,
            0,
            None if weight is None else weight.ctypes.data,
            None if bias is None else bias.ctypes.data,
            source.place(channel),
            out.place(channel),
            None if mask is None else mask.ctypes.data,
        )
        made.keep = (weight, bias, mask)
        return made

    planner.emit(
        Kind.CHANNEL_NORM,
        make,
        [source],
        out,
        extent=positions.count,
        ranges=written.ranges,
    )
    return out


def group_norm(planner: Planner, node: n.GroupNorm) -> Tensor:
    """Over groups of channels of every image."""
    only_in_lines(planner, "a group norm")
    source = planner.values[node.inputs[0]]
    if source.strides[3] != 1 or source.buffer.slot:
        source = planner.copy(source, planner.images(node.inputs[0], source.shape))
    out = planner.images(node, node.shape)
    images, channels, lines, width = node.shape
    weight, bias = (
        None if one is None else np.ascontiguousarray(one, np.float32)
        for one in (node.weight, node.bias)
    )

    def make() -> c.Structure:
        made = c.GroupNorm(
            images,
            channels,
            node.groups,
            lines,
            width,
            node.eps,
            0,
            None if weight is None else weight.ctypes.data,
            None if bias is None else bias.ctypes.data,
            view_of(source, source.strides[:3]),
            view_of(out, out.strides[:3]),
        )
        made.keep = (weight, bias)
        return made

    planner.emit(Kind.GROUP_NORM, make, [source], out)
    return out


def softmax(planner: Planner, node: n.Softmax) -> Tensor:
    """Over one dimension, which comes last for the kernel."""
    source = planner.owned(planner.values[node.inputs[0]])
    out = planner.compact(source)
    order = [dim for dim in range(len(node.shape)) if dim != node.dimension] + [node.dimension]

    def make() -> c.Structure:
        shape = c.DIMS(*(node.shape[dim] for dim in order))
        return c.Softmax(len(order), shape, int(node.log), source.view(order), out.view(order))

    planner.emit(Kind.SOFTMAX, make, [source], out)
    return out


def reduce(planner: Planner, node: n.Reduce) -> Tensor:
    """The kept dimensions first, then the reduced ones."""
    source = planner.owned(planner.values[node.inputs[0]])
    kept = [dim for dim in range(len(source.shape)) if dim not in node.dimensions]
    out = planner.like_order(node.shape, [source])
    share = 1.0 / max(1, prod(source.shape[dim] for dim in node.dimensions))
    reduced = list(node.dimensions)
    if node.function in ("sum", "mean") and set(reduced) == {2, 3}:
        source = _whole_images(source)
        reduced = [dim for dim in reduced if source.shape[dim] > 1] or reduced
    order = [*kept, *reduced]
    kinds = {"sum": 0, "mean": 1, "amax": 2, "amin": 3}

    def make() -> c.Structure:
        shape = c.DIMS(*(source.shape[dim] for dim in order))
        return c.Reduce(
            kinds[node.function], len(kept), len(reduced), shape,
            source.view(order), out.view(kept), share, 0,
        )  # fmt: skip

    planner.emit(Kind.REDUCE, make, [source], out)
    return out


def _whole_images(source: Tensor) -> Tensor:
    """Images as one line each, if zeros lie between their lines."""
    if source.buffer.zero_gaps != (source.offset, source.shape, source.strides):
        return source
    height, width = source.shape[2:]
    shape = (*source.shape[:2], 1, (height - 1) * source.strides[2] + width)
    return Tensor(source.buffer, source.offset, shape, source.strides)


RULES: dict[type[n.Node], Any] = {
    n.LayerNorm: layer_norm,
    n.GroupNorm: group_norm,
    n.Softmax: softmax,
    n.Reduce: reduce,
}
