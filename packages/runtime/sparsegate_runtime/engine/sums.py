"""Lowers linear layers and convolutions: where their inputs lie, and the sums over kept weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import network as n
from . import structures as c
from .borders import reads_in_place
from .in_lines import InLines
from .kept import entries, num_kept
from .matrix import Rows, Slices, Weights, columns_in_block
from .planner import Planner
from .structures import Kind
from .tensor import LANES, Tensor

FEW = 3
"""Positions up to which a matrix is multiplied by one vector after another."""
MOST_COLUMNS = 2**16
"""Columns that a matrix of slices can have."""
TILE = 16
"""Vectors of a tile: enough to hide the loads of weights, few enough for inputs to stay near."""
WIDEST = {0: 6, 1: 6, 2: 28, 3: 6, 4: 6}
"""Vectors that fit into the registers, by variant."""
DENSE = 0.7
"""Kept weights from which a matrix without zeros in its kernel is faster."""


@dataclass(frozen=True, eq=False)
class Taps:
    """What each column of a weight reads: a channel, and a distance from the position."""

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
    apart: tuple[int, int, int] = (0, 0, 0)
    """Where strided layers on images side by side read: `Apart` of engine.h."""

    @property
    def num_rows(self) -> int:
        """Rows of the matrix."""
        return len(self.node.weight)

    @property
    def num_columns(self) -> int:
        """Columns of the matrix."""
        return int(self.node.weight.size) // max(1, self.num_rows)

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
    emit(planner, made, c.Finish(-np.inf, 0, None, None), border=planner.borders.value(node))
    return made.out


def emit(
    planner: Planner,
    sums: Sums,
    finish: c.Finish,
    *,
    border: float | None = None,
    reads: tuple[Tensor, ...] = (),
    then: Callable[[], c.Pointwise] | None = None,
) -> None:
    """Adds the product, by the kernel that suits it."""
    written = planner.layout.written(sums.out, sums.out_channel, border, line=sums.apart[0])
    mask = written.mask
    columns, kept = sums.num_columns, num_kept(sums.node.weight)
    is_plain = sums.groups == 1 and columns > 1 and not sums.apart[0]
    if is_matrix_vector(sums):
        make, kind, scratch = _matrix_vector(sums), Kind.MATRIX_VECTOR, columns + 16
    elif kept >= DENSE * sums.num_rows * columns and is_plain:
        make, kind, scratch = _dense(sums), Kind.DENSE_MULTIPLY, 0
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
        ranges=written.ranges,
        reach=sums.reach,
        name=sums.node.name,
        scratch=scratch,
        work=2.0 * kept * prod(sums.out.shape) / max(1, sums.out.shape[sums.out_channel]),
    )


def is_matrix_vector(sums: Sums) -> bool:
    """Whether the kernel for few positions runs it."""
    is_few = _is_few(sums.extent, sums.num_columns, sums.groups)
    return is_few and not sums.taps.offset.any()


def _is_few(extent: int, columns: int, groups: int) -> bool:
    """Whether a matrix is multiplied by one position after another."""
    return extent <= FEW and columns <= MOST_COLUMNS and groups == 1


def _address(structure: c.Structure) -> int:
    import ctypes

    return ctypes.addressof(structure)


# -- where layers read -----------------------------------------------------------------------------


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
    few = _is_few(extent, node.weight.size // max(1, len(node.weight)), groups)
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
    grid = planner.borders.grid(node)
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
        source = planner.layout.on_grid(node, source)
    (pad_y, _), (pad_x, _) = node.padding
    lines = np.arange(node.weight.shape[2]) * node.dilation[0] - pad_y
    pixels = np.arange(node.weight.shape[3]) * node.dilation[1] - pad_x
    offsets = (lines[:, None] * grid.line + pixels[None, :]).reshape(-1)
    out = planner.images(node, node.shape)
    extent = planner.layout.extent(out)
    return Sums(node, source, 1, out, 1, extent, _taps(node, offsets), node.groups)


def _taps(node: n.Conv, offsets: NDArray[np.int64]) -> Taps:
    channels = node.weight.shape[1]
    return Taps(np.repeat(np.arange(channels), len(offsets)), np.tile(offsets, channels))


# -- kernels ---------------------------------------------------------------------------------------


def _columns(sums: Sums, row: NDArray[np.int64], column: NDArray[np.int64]) -> Any:
    """The offset in floats and the channel within its group of each weight."""
    group = row // max(1, sums.num_rows // sums.groups)
    channels = sums.source.shape[sums.source_channel] // sums.groups
    channel = sums.taps.channel[column]
    stride = sums.source.strides[sums.source_channel]
    return (group * channels + channel) * stride + sums.taps.offset[column], channel


def _multiply(planner: Planner, sums: Sums) -> Callable[[], c.Structure]:
    row, column, value = entries(sums.node.weight)
    channels = int(sums.taps.channel.max(initial=0)) + 1
    tile = min(TILE, WIDEST[planner.variant])
    offset, channel = _columns(sums, row, column)
    near = columns_in_block(len(row), sums.num_rows, channels, _bytes_of_tile(sums, tile))
    weights = Weights(row, column, value, sums.num_rows)
    rows = Rows.of(weights, 4 * offset, channel // near)
    work = weights.before_row
    bias = _bias(sums)

    def make() -> c.Structure:
        made = c.Multiply(
            sums.num_rows,
            rows.as_c(),
            bias.ctypes.data,
            work.ctypes.data,
            sums.source.place(sums.source_channel),
            sums.out.place(sums.out_channel),
            c.Finish(),
            tile,
            c.Apart(*sums.apart),
        )
        made.keep = (rows, bias, work)
        return made

    return make


def _nearly_equal(vectors: int, most: int) -> int:
    """Vectors of the largest of nearly equal tiles."""
    return -(-vectors // -(-vectors // most))


def _bytes_of_tile(sums: Sums, tile: int) -> int:
    """Bytes of a channel that a tile reads."""
    if not sums.taps.offset.any() or sums.out.strides[0] != 1:
        vectors = max(1, -(-sums.extent // LANES))
        return 64 * _nearly_equal(vectors, tile) + 4 * sum(sums.reach)
    # a tile does not go beyond a line
    pixels = np.arange(_nearly_equal(sums.out.shape[3], tile)) * max(1, sums.apart[2])
    taps = np.unique(sums.taps.offset) // LANES
    return 64 * len(np.unique(taps[:, None] + pixels))


def _bias(sums: Sums) -> NDArray[np.float32]:
    if sums.node.bias is None:
        return np.zeros(sums.num_rows, np.float32)
    return np.ascontiguousarray(sums.node.bias, np.float32)


GROUP = 4
"""Rows of a dense matrix that are multiplied together."""


def _dense(sums: Sums) -> Callable[[], c.Structure]:
    weight = np.asarray(sums.node.weight).reshape(sums.num_rows, sums.num_columns)
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
    row, column, value = entries(sums.node.weight)
    weights = Weights(row, column, value, sums.num_rows)
    slices, bias = Slices.of(weights), _bias(sums)

    def make() -> c.Structure:
        made = c.MatrixVector(
            sums.num_rows,
            sums.num_columns,
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
