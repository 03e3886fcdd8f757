"""Lowers what moves elements: inputs, views, joins, padding, pools, interpolation, embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import network as n
from . import structures as c
from .bands import Pair
from .planner import Planner, only_in_lines, view_of
from .side_by_side import SideBySide
from .structures import Kind
from .tensor import SLACK, Tensor, dense_strides, rounded


def take_input(planner: Planner, node: n.Input) -> Tensor:
    """A tensor of the caller."""
    buffer = planner.slots.add(kind=node.kind)
    planner.inputs.append(buffer)
    return Tensor(buffer, 0, node.shape, dense_strides(node.shape))


def take_constant(planner: Planner, node: n.Constant) -> Tensor:
    """A tensor of fixed values."""
    return planner.constant(node.value)


def reshape(planner: Planner, node: n.Reshape) -> Tensor:
    """A view where there is one, else a copy."""
    source = planner.values[node.inputs[0]]
    found = source.reshape(node.shape)
    if found is not None:
        return found
    copied = planner.copy(source, planner.compact(source)).reshape(node.shape)
    if copied is None:  # only the usual order of the elements has the shape
        plain = planner.new(source.shape, range(len(source.shape)))
        copied = planner.copy(source, plain).reshape(node.shape)
    assert copied is not None
    return copied


def permute(planner: Planner, node: n.Permute) -> Tensor:
    """A view."""
    return planner.values[node.inputs[0]].permute(node.dimensions)


def cut(planner: Planner, node: n.Slice) -> Tensor:
    """A view."""
    source = planner.values[node.inputs[0]]
    return source.slice(node.dimension, node.start, node.step, node.shape[node.dimension])


def expand(planner: Planner, node: n.Expand) -> Tensor:
    """A view."""
    return planner.values[node.inputs[0]].expand(node.shape)


def join(planner: Planner, node: n.Join) -> Tensor:
    """Copies every tensor to its place."""
    sources = [planner.values[read] for read in node.inputs]
    out = planner.like_order(node.shape, sources)
    start = 0
    for source in sources:
        size = source.shape[node.dimension]
        if size:
            planner.copy(source, out.slice(node.dimension, start, 1, size))
        start += size
    return out


def pad(planner: Planner, node: n.Pad) -> Tensor:
    """Leaves out what negative sides say, fills the rest, copies what is left."""
    source = planner.values[node.inputs[0]]
    for dim, (before, after) in enumerate(node.sides):
        left = source.shape[dim] + min(before, 0) + min(after, 0)
        source = source.slice(dim, max(0, -before), 1, left)
    if source.shape == node.shape:
        return source
    out = planner.like_order(node.shape, [source])

    def make() -> c.Structure:
        place = c.Place(out.buffer.slot, out.buffer.offset, 0)
        return c.Fill(1, place, node.value, 0)

    planner.emit(Kind.FILL, make, [], out, extent=-out.buffer.size)
    inner = out
    for dim, (before, _) in enumerate(node.sides):
        inner = inner.slice(dim, max(0, before), 1, source.shape[dim])
    planner.copy(source, inner)
    return out


def pool(planner: Planner, node: n.Pool) -> Tensor:
    """Windows over images that were taken apart into the phases of the stride."""
    fill = -np.inf if node.largest else 0.0
    out = planner.images(node, node.shape)
    phases = planner.layout.phases(
        node, node.kernel, node.dilation, node.stride, node.padding, fill
    )
    border = planner.borders.value(node) if isinstance(planner.layout, SideBySide) else None
    written = planner.layout.written(out, 1, border, line=phases.apart[0])
    scale = None if node.largest else _shares(node, out)

    def make() -> c.Structure:
        made = c.Pool(
            node.shape[1],
            len(phases.offsets),
            int(node.largest),
            phases.offsets.ctypes.data,
            None if scale is None else scale.ctypes.data,
            phases.tensor.place(0),
            out.place(1),
            None,
            c.Apart(*phases.apart),
        )
        made.keep = (phases.offsets, scale)
        return made

    extent = rounded(planner.layout.extent(out))
    source = planner.values[node.inputs[0]]
    planner.emit(Kind.POOL, make, [phases.tensor], out, extent=extent, ranges=written.ranges)
    if isinstance(planner.layout, SideBySide) and phases.tensor.buffer is source.buffer:
        pair = Pair.of(planner, node, source)
        if pair is not None:
            pair.emit(planner.pending.pop())
    return out


def _shares(node: n.Pool, out: Tensor) -> Any:
    """What each position of a mean multiplies its sum by."""
    image, _, line, pixel = out.strides
    extent = sum((size - 1) * step for size, step in zip(out.shape, out.strides, strict=True))
    shares = np.zeros(rounded(extent + 1) + SLACK, np.float32)
    counts = []
    for axis in (0, 1):
        size, count = node.inputs[0].shape[2 + axis], node.shape[2 + axis]
        taps = np.arange(node.kernel[axis]) * node.dilation[axis]
        at = np.arange(count)[:, None] * node.stride[axis] - node.padding[axis] + taps
        last = size if not node.counts_padding else size + node.padding[axis]
        first = 0 if not node.counts_padding else -node.padding[axis]
        counts.append(((at >= first) & (at < last)).sum(1))
    both = counts[0][:, None] * counts[1][None, :]
    if node.divisor is not None:
        both = np.full_like(both, node.divisor)
    sizes = (node.shape[0], *node.shape[2:])
    places = np.lib.stride_tricks.as_strided(shares, sizes, (4 * image, 4 * line, 4 * pixel))
    places[...] = 1 / both
    return shares


def upsample(planner: Planner, node: n.Upsample) -> Tensor:
    """Interpolates."""
    only_in_lines(planner, "interpolation")
    source = planner.values[node.inputs[0]]
    if source.strides[3] != 1 or source.buffer.slot:
        source = planner.copy(source, planner.images(node.inputs[0], source.shape))
    out = planner.images(node, node.shape)
    arrays = [np.ascontiguousarray(one) for one in (*node.lines, *node.pixels)]

    def make() -> c.Structure:
        made = c.Upsample(
            node.shape[0],
            node.shape[1],
            node.shape[2],
            node.shape[3],
            source.view(),
            out.view(),
            *(one.ctypes.data for one in arrays),
        )
        made.keep = tuple(arrays)
        return made

    planner.emit(Kind.UPSAMPLE, make, [source], out)
    return out


def embedding(planner: Planner, node: n.Embedding) -> Tensor:
    """Rows of a table, laid out as channels."""
    ids = planner.values[node.inputs[0]]
    channel = len(node.shape) - 1
    out = planner.allocate(node.shape, channel)
    table = np.ascontiguousarray(node.table, np.float32)
    dims = len(ids.shape)

    def make() -> c.Structure:
        made = c.Embedding(
            table.shape[0],
            table.shape[1],
            table.ctypes.data,
            max(1, dims),
            c.DIMS(*(ids.shape or (1,))),
            ids.view() if dims else view_of(ids, [0]),
            out.view(range(channel)) if dims else view_of(out, [1]),
            out.strides[channel],
        )
        made.keep = (table,)
        return made

    planner.emit(Kind.EMBEDDING, make, [ids], out, name=node.name)
    return out


def cast(planner: Planner, node: n.Cast) -> Tensor:
    """Integers or truth values as floats."""
    source = planner.values[node.inputs[0]]
    dims = len(node.shape)
    out = planner.new(node.shape, range(dims))

    def make() -> c.Structure:
        return c.Cast(
            max(1, dims),
            c.DIMS(*(node.shape or (1,))),
            8 if source.buffer.kind == "int64" else 1,
            source.view() if dims else view_of(source, [0]),
            out.view() if dims else view_of(out, [1]),
        )

    planner.emit(Kind.CAST, make, [source], out)
    return out


def external(planner: Planner, node: n.External) -> Tensor:
    """An operation that the caller runs on views of the engine's memory."""
    return planner.call(node, [planner.values[read] for read in node.inputs])


RULES: dict[type[n.Node], Any] = {
    n.Input: take_input,
    n.Constant: take_constant,
    n.Reshape: reshape,
    n.Permute: permute,
    n.Slice: cut,
    n.Expand: expand,
    n.Join: join,
    n.Pad: pad,
    n.Pool: pool,
    n.Upsample: upsample,
    n.Embedding: embedding,
    n.Cast: cast,
    n.External: external,
}
