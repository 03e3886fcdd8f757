"""Lowers linear layers and convolutions: where their inputs lie, and the sums over kept weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import network as n
from . import structures as c
from .matrix import Rows, Slices, Weights, columns_in_block
from .planner import Planner, Unplanned
from .structures import Kind
from .tensor import SLACK, Tensor, rounded

FEW = 3
"""Positions up to which a matrix is multiplied by one vector after another."""
MOST_COLUMNS = 2**16
"""Columns that a matrix of slices can have."""
WIDEST = {0: 6, 1: 6, 2: 28}
"""Vectors of a tile, by variant."""
DENSE = 0.7
"""Kept weights from which a matrix without zeros in its kernel is faster."""

FinishOf = Callable[[], c.Finish]


@dataclass(frozen=True, eq=False)
class Taps:
    """What every row reads: a channel and a distance from the position, for each column of a weight."""

    channel: NDArray[np.int64]
    """[columns] within a group."""
    offset: NDArray[np.int64]
    """[columns] in floats, without the channel's."""


@dataclass(frozen=True, eq=False)
class Sums:
    """A product with a matrix, not finished yet."""

    node: n.Linear | n.Conv
    source: Tensor
    source_channel: int
    out: Tensor
    out_channel: int
    extent: int
    taps: Taps
    groups: int = 1

    @property
    def weight(self) -> NDArray[np.float32]:
        """[rows, columns]"""
        flat: NDArray[np.float32] = self.node.weight.reshape(len(self.node.weight), -1)
        return flat

    @property
    def reach(self) -> tuple[int, int]:
        """Positions that it reads before and after its own."""
        low, high = int(self.taps.offset.min(initial=0)), int(self.taps.offset.max(initial=0))
        return max(0, -low), max(0, high)


def sums_of(planner: Planner, node: n.Linear | n.Conv) -> Sums:
    """Where a layer reads and writes."""
    return _linear(planner, node) if isinstance(node, n.Linear) else _conv(planner, node)


def layer(planner: Planner, node: n.Linear | n.Conv) -> Tensor:
    """A layer whose sums nothing finishes."""
    made = sums_of(planner, node)
    emit(planner, made, c.Finish(-np.inf, 0, None, None), clean=node in planner.borders.clean)
    return made.out


def emit(planner: Planner, sums: Sums, finish: c.Finish, *, clean: bool = False,
         reads: tuple[Tensor, ...] = (), then: Callable[[], c.Pointwise] | None = None) -> None:
    """Adds the product, by the kernel that suits it."""
    mask = None
    if clean:
        positions = sums.out.positions(sums.out_channel)
        assert positions is not None
        mask = positions.inside(sums.extent)
        sums.out.buffer.is_clean = True
    kept = np.count_nonzero(sums.weight) / max(1, sums.weight.size)
    is_few = sums.extent <= FEW and sums.weight.shape[1] <= MOST_COLUMNS and sums.groups == 1
    if is_few and not sums.taps.offset.any():
        make, kind, scratch = _matrix_vector(sums), Kind.MATRIX_VECTOR, sums.weight.shape[1] + 16
    elif kept >= DENSE and sums.groups == 1 and sums.weight.shape[1] > 1:
        make, kind, scratch = _dense(planner, sums), Kind.DENSE_MULTIPLY, 0
    else:
        make, kind, scratch = _multiply(planner, sums), Kind.MULTIPLY, 0

    def finished() -> c.Structure:
        made = make()
        made.finish = finish
        extra = None if then is None else then()
        where = None if mask is None else mask.ctypes.data
        if extra is not None:
            extra.inside = where
            made.finish.then = _address(extra)
        else:
            made.finish.inside = where
        made.keep = (*made.keep, extra, mask)
        return made

    others = tuple(one for one in reads if one.buffer is not sums.source.buffer)
    planner.emit(
        kind,
        finished,
        [sums.source, *others],
        sums.out,
        extent=sums.extent,
        reach=sums.reach,
        name=sums.node.name,
        scratch=scratch,
    )
    if clean:
        planner.clear_lead(sums.out, sums.out_channel)


def _address(structure: c.Structure) -> int:
    import ctypes

    return ctypes.addressof(structure)


# -- where layers read ------------------------------------------------------------------------------


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
    extent = positions.extent
    out = planner.allocate(node.shape, channel, source, extent)
    columns = node.weight.reshape(len(node.weight), -1).shape[1]
    zero = np.zeros(columns, np.int64)
    groups = node.groups if isinstance(node, n.Conv) else 1
    return Sums(node, source, channel, out, channel, extent, Taps(np.arange(columns), zero), groups)


def _conv(planner: Planner, node: n.Conv) -> Sums:
    source = planner.values[node.inputs[0]]
    taps = node.weight.shape[2:]
    if prod(taps) == 1 and node.stride == (1, 1) and not any(map(any, node.padding)):
        return _pointwise_layer(planner, node, planner.arranged(source, 1), 1)
    if node.stride == (1, 1) and min(map(min, node.padding)) >= 0:
        return _conv_on_grid(planner, node, source)
    before = (node.padding[0][0], node.padding[1][0])
    phases = planner.phases(node, taps, node.dilation, node.stride, before, 0.0)
    out = planner.images(node, node.shape)
    extent = out.strides[0] * node.shape[0]
    return Sums(
        node,
        phases.tensor,
        0,
        out,
        1,
        extent,
        _taps(node, phases.offsets.astype(np.int64) // 4),
        node.groups,
    )


def _conv_on_grid(planner: Planner, node: n.Conv, source: Tensor) -> Sums:
    """A convolution that reads its neighbours and the zeros around images where they lie."""
    grid = planner.borders.grid(node)
    plane = grid.line * grid.lines
    fits = source.strides[0] == plane and source.strides[2:] == (grid.line, 1)
    padded = any(map(any, node.padding))
    first = node.padding[0][0] * grid.line + node.padding[1][0]
    if source.buffer.slot or not fits or (padded and not source.buffer.is_clean) or (
        source.buffer.lead < first
    ):
        source = planner.on_grid(node.inputs[0], source)
    (pad_y, _), (pad_x, _) = node.padding
    lines = np.arange(node.weight.shape[2]) * node.dilation[0] - pad_y
    pixels = np.arange(node.weight.shape[3]) * node.dilation[1] - pad_x
    offsets = (lines[:, None] * grid.line + pixels[None, :]).reshape(-1)
    out = planner.images(node, node.shape)
    extent = plane * node.shape[0]
    return Sums(node, source, 1, out, 1, extent, _taps(node, offsets), node.groups)


def _taps(node: n.Conv, offsets: NDArray[np.int64]) -> Taps:
    channels = node.weight.shape[1]
    return Taps(np.repeat(np.arange(channels), len(offsets)), np.tile(offsets, channels))


# -- kernels ----------------------------------------------------------------------------------------


def _columns(sums: Sums, row: NDArray[np.int64], column: NDArray[np.int64]) -> Any:
    """The offset in floats and the channel within its group of each weight."""
    group = row // max(1, len(sums.weight) // sums.groups)
    channels = sums.source.shape[sums.source_channel] // sums.groups
    channel = sums.taps.channel[column]
    stride = sums.source.strides[sums.source_channel]
    return (group * channels + channel) * stride + sums.taps.offset[column], channel


def _multiply(planner: Planner, sums: Sums) -> Callable[[], c.Structure]:
    weight = sums.weight
    row, column = np.nonzero(weight)
    reach = 4 * sum(sums.reach)
    channels = int(sums.taps.channel.max(initial=0)) + 1
    vectors = rounded(sums.extent) // 16
    tile = _tile(len(row), weight, channels, reach, min(WIDEST[planner.variant], vectors))
    offset, channel = _columns(sums, row, column)
    near = columns_in_block(len(row), len(weight), channels, 64 * tile + reach)
    weights = Weights(row, column, weight[row, column], len(weight))
    rows = Rows.of(weights, 4 * offset, channel // near)
    work = weights.before_row
    bias = _bias(sums)

    def make() -> c.Structure:
        made = c.Multiply(
            len(weight),
            rows.as_c(),
            bias.ctypes.data,
            work.ctypes.data,
            sums.source.place(sums.source_channel),
            sums.out.place(sums.out_channel),
            c.Finish(),
            tile,
        )
        made.keep = (rows, bias, work)
        return made

    return make


def _tile(kept: int, weight: NDArray[Any], channels: int, reach: int, widest: int) -> int:
    """Vectors of a tile for which loads of sums and inputs beside the products are fewest.

    >>> _tile(59_000, np.zeros((1536, 384)), 384, 0, 28) in range(4, 17)
    True
    """
    best, found = 0.0, 1
    for tile in range(1, widest + 1):
        near = columns_in_block(kept, len(weight), channels, 64 * tile + reach)
        each = kept / max(1, len(weight)) * min(1.0, near / channels)
        far = 1.0 if near * (64 * tile + reach) <= 40_000 else 1.6
        chains = 1 if tile >= 4 else 2 if tile >= 2 else 4
        rate = each * tile / (1.5 * tile + 8 + each * (max(tile * far, 8 / chains) + 1.5))
        if rate > 1.02 * best:
            best, found = rate, tile
    return found


def _bias(sums: Sums) -> NDArray[np.float32]:
    if sums.node.bias is None:
        return np.zeros(len(sums.weight), np.float32)
    return np.ascontiguousarray(sums.node.bias, np.float32)


GROUP = 4
"""Rows of a dense matrix that are multiplied together."""


def _dense(planner: Planner, sums: Sums) -> Callable[[], c.Structure]:
    weight = sums.weight
    columns = np.arange(weight.shape[1])
    offset, _ = _columns(sums, np.zeros(len(columns), np.int64), columns)
    offsets = (4 * offset).astype(np.int32)
    groups = -(-len(weight) // GROUP)
    padded = np.zeros((groups * GROUP, weight.shape[1]), np.float32)
    padded[: len(weight)] = weight
    packed = np.ascontiguousarray(padded.reshape(groups, GROUP, -1).transpose(0, 2, 1))
    bias = np.zeros(groups * GROUP, np.float32)
    bias[: len(weight)] = _bias(sums)

    def make() -> c.Structure:
        made = c.DenseMultiply(
            len(weight),
            weight.shape[1],
            GROUP,
            offsets.ctypes.data,
            packed.ctypes.data,
            bias.ctypes.data,
            sums.source.place(sums.source_channel),
            sums.out.place(sums.out_channel),
            c.Finish(),
            64,
        )
        made.keep = (offsets, packed, bias)
        return made

    return make


def _matrix_vector(sums: Sums) -> Callable[[], c.Structure]:
    row, column = np.nonzero(sums.weight)
    weights = Weights(row, column, sums.weight[row, column], len(sums.weight))
    slices, bias = Slices.of(weights), _bias(sums)

    def make() -> c.Structure:
        made = c.MatrixVector(
            len(sums.weight),
            sums.weight.shape[1],
            slices.as_c(),
            bias.ctypes.data,
            sums.source.place(sums.source_channel),
            sums.out.place(sums.out_channel),
            1,
            1,
            c.Finish(),
        )
        made.keep = (slices, bias)
        return made

    return make


# -- transposed convolutions ------------------------------------------------------------------------


def transposed(planner: Planner, node: n.TransposedConv) -> Tensor:
    """A convolution for each phase of the output, whose results are then interleaved."""
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
            sizes = [-(-(node.shape[2] - y) // node.stride[0]), -(-(node.shape[3] - x) // node.stride[1])]
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
    """The taps of a transposed convolution that reach one phase of its output, with their shifts."""

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
        taps = [t for t in range(node.weight.shape[2 + axis]) if (phase + pad - t * gap) % step == 0]
        found.append(PhaseTaps(tuple(taps), tuple((phase + pad - t * gap) // step for t in taps)))
    return found


def _phase_weights(
    node: n.TransposedConv,
    lines: list[PhaseTaps],
    pixels: list[PhaseTaps],
    low: tuple[int, int],
    high: tuple[int, int],
) -> NDArray[np.float32]:
    """[outputs * phases, inputs of a group, lines, pixels]"""
    inputs, outputs = node.weight.shape[:2]
    size = (high[0] - low[0] + 1, high[1] - low[1] + 1)
    each = inputs // node.groups
    made = np.zeros((node.groups, outputs, *node.stride, each, *size), np.float32)
    grouped = node.weight.reshape(node.groups, each, outputs, *node.weight.shape[2:])
    for y, one in enumerate(lines):
        for x, other in enumerate(pixels):
            for tap_y, shift_y in zip(one.taps, one.shifts, strict=True):
                for tap_x, shift_x in zip(other.taps, other.shifts, strict=True):
                    value = grouped[:, :, :, tap_y, tap_x].transpose(0, 2, 1)
                    made[:, :, y, x, :, shift_y - low[0], shift_x - low[1]] = value
    return made.reshape(node.groups * outputs * prod(node.stride), each, *size)


# -- products of activations --------------------------------------------------------------------------


def product(planner: Planner, node: n.Product) -> Tensor:
    """A matrix product of two activations."""
    a, b = (planner.values[read] for read in node.inputs)
    leading = node.shape[:-2]
    if len(leading) > 3:
        raise Unplanned(f"a matrix product over {len(leading)} leading dimensions")
    rows, columns, inner = *node.shape[-2:], a.shape[-1]
    a = a.expand((*leading, rows, inner))
    if b.strides[-1] != 1 or b.buffer.slot:
        b = planner.copy(b, planner.new(b.shape, range(len(b.shape))))
    b = b.expand((*leading, inner, columns))
    out = planner.new(node.shape, range(len(node.shape)))
    missing = 3 - len(leading)

    def view(one: Tensor) -> c.View:
        made = one.view()
        made.stride = c.DIMS(*[0] * missing, *one.strides)
        return made

    def make() -> c.Structure:
        batch = (c.LONG * 3)(*[1] * missing, *leading)
        return c.MatrixMultiply(batch, rows, inner, columns, view(a), view(b), view(out), 1.0)

    planner.emit(Kind.MATRIX_MULTIPLY, make, [a, b], out)
    return out


def attention(planner: Planner, node: n.Attention) -> Tensor:
    """Attention with its tokens next to each other."""
    q, k, v = (_tokens(planner, planner.values[read]) for read in node.inputs[:3])
    masked = len(node.inputs) > 3
    mask = planner.values[node.inputs[3]] if masked else None
    images, heads, queries, features = q.shape
    keys, value_features = k.shape[2], v.shape[3]
    by_feature = planner.allocate((images, queries, heads * value_features), 2)
    split = by_feature.reshape((images, queries, heads, value_features))
    assert split is not None
    out = split.permute((0, 2, 1, 3))
    if mask is not None:
        mask = mask.expand((images, heads, queries, keys))

    def view(one: Tensor) -> c.View:
        made = one.view()
        made.stride = c.DIMS(one.strides[0], one.strides[1], one.strides[3])
        return made

    def make() -> c.Structure:
        kind = 0 if mask is None else 2 if mask.buffer.kind == "bool" else 1
        return c.Attention(
            images, heads, k.shape[1], queries, keys, features, value_features,
            view(q), view(k), view(v), view(out),
            c.View(-1) if mask is None else mask.view(),
            kind, int(node.causal), node.scale,
        )  # fmt: skip

    reads = [q, k, v] if mask is None else [q, k, v, mask]
    room = 64 * (keys + value_features + features) + 4096
    planner.emit(Kind.ATTENTION, make, reads, out, scratch=min(room, 65_536))
    return out


def _tokens(planner: Planner, source: Tensor) -> Tensor:
    """The tensor with its tokens next to each other."""
    if source.strides[2] == 1 and source.buffer.slot == 0:
        return source
    images, heads, tokens, features = source.shape
    by_feature = planner.allocate((images, tokens, heads * features), 2)
    split = by_feature.reshape((images, tokens, heads, features))
    assert split is not None
    return planner.copy(source, split.permute((0, 2, 1, 3)))


RULES: dict[type[n.Node], Any] = {
    n.Linear: layer,
    n.Conv: layer,
    n.TransposedConv: transposed,
    n.Product: product,
    n.Attention: attention,
}

__all__ = ["RULES", "SLACK", "Sums", "emit", "layer", "replace", "sums_of"]
