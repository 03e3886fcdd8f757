"""Lowers the sums over kept weights of linear layers and convolutions, by the kernel that suits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import network as n
from . import structures as c
from .depthwise import Lines, depthwise
from .kept import entries, num_kept
from .matrix import (
    NEAR,
    PANEL_COLUMNS,
    CPanels,
    CSlices,
    Panels,
    Rows,
    Slices,
    Weights,
    columns_in_block,
    most_near,
    vector_scratch,
)
from .planner import Planner
from .structures import Kind
from .tensor import LANES, Tensor, rounded

FEW = 3
"""Positions up to which a matrix is multiplied by one vector after another."""
MOST_COLUMNS = 2**16
"""Columns that a matrix of slices can have."""
TILE = 16
"""Vectors of a tile: enough to hide the loads of weights, few enough for inputs to stay near."""
TILE_OF_PIXELS = 10
"""Vectors of a tile of images side by side: fewer, as a kernel's neighbors need the cache, too."""
WIDEST = {0: 6, 1: 6, 2: 28, 3: 6, 4: 6}
"""Vectors that fit into the registers, by variant."""
AVX512 = 2
"""The variant whose registers can choose among the columns of a block."""
WORTH_PANELS = 2.0
"""Weights that a row should have in a block of columns of a panel."""
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
    lines: Lines | None = None
    """Where a depthwise convolution reads, if the kernel for those runs it."""

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
        if self.lines:  # its input is complete before; it computes the whole of its last line
            return 0, self.lines.out_line
        low, high = int(self.taps.offset.min(initial=0)), int(self.taps.offset.max(initial=0))
        return max(0, -low), max(0, high)


def emit(
    planner: Planner,
    sums: Sums,
    finish: c.Finish,
    *,
    written_for: n.Node | None = None,
    reads: tuple[Tensor, ...] = (),
    then: Callable[[], c.Pointwise] | None = None,
    added: Tensor | None = None,
) -> None:
    """Adds the product, by the kernel that suits it.

    Args:
        planner: the planner.
        sums: the product.
        finish: the bounds of the sums.
        written_for: the node whose readers say what the border of the result must hold.
        reads: what is read besides the input.
        then: makes the functions that follow.
        added: what is added to the sums first; its dimensions are those of the result.

    """
    borders, is_summed = planner.borders, written_for in planner.borders.summed
    border = None if written_for is None else borders.value(written_for)
    written = planner.layout.written(
        sums.out, sums.out_channel, border, line=sums.apart[0], is_summed=is_summed
    )
    mask = written.mask
    columns, kept = sums.num_columns, num_kept(sums.node.weight)
    is_plain = sums.groups == 1 and columns > 1 and not sums.apart[0]
    if sums.lines is not None:
        make, kind, scratch = depthwise(sums, sums.lines), Kind.DEPTHWISE, 0
    elif is_matrix_vector(sums):
        make, kind = _matrix_vector(planner, sums), Kind.MATRIX_VECTOR
        scratch = vector_scratch(columns)
    elif kept >= DENSE * sums.num_rows * columns and is_plain:
        make, kind, scratch = _dense(sums), Kind.DENSE_MULTIPLY, 0
    else:
        make, kind, scratch = _multiply(planner, sums), Kind.MULTIPLY, 0

    def finished() -> c.Structure:
        made = make()
        made.finish = finish
        if added is not None:
            made.finish.adds, made.finish.added = 1, added.place(sums.out_channel)
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
    few = is_few(sums.extent, sums.num_columns, sums.groups)
    return few and not sums.taps.offset.any()


def is_few(extent: int, columns: int, groups: int) -> bool:
    """Whether a matrix is multiplied by one position after another."""
    return extent <= FEW and columns <= MOST_COLUMNS and groups == 1


def _address(structure: c.Structure) -> int:
    import ctypes

    return ctypes.addressof(structure)


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
    is_side_by_side = sums.out.strides[0] == 1 and len(sums.out.shape) == 4
    tile = min(TILE_OF_PIXELS if is_side_by_side else TILE, WIDEST[planner.variant])
    offset, channel = _columns(sums, row, column)
    room = most_near() if is_side_by_side else NEAR
    near = columns_in_block(len(row), sums.num_rows, channels, _bytes_of_tile(sums, tile), room)
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


def _matrix_vector(planner: Planner, sums: Sums) -> Callable[[], c.Structure]:
    kept = num_kept(sums.node.weight)
    density = kept / max(1, sums.num_rows * sums.num_columns)
    slices, panels, dense = CSlices(), CPanels(), None
    keep: Any
    if density >= DENSE:
        keep = dense = _padded_rows(sums)
    else:
        weights = Weights(*entries(sums.node.weight), sums.num_rows)
        if planner.variant == AVX512 and density * PANEL_COLUMNS >= WORTH_PANELS:
            keep = Panels.of(weights, sums.num_columns)
            panels = keep.as_c()
        else:
            keep = Slices.of(weights)
            slices = keep.as_c()
    bias = _bias(sums)

    def make() -> c.Structure:
        made = c.MatrixVector(
            sums.num_rows,
            sums.num_columns,
            slices,
            panels,
            None if dense is None else dense.ctypes.data,
            bias.ctypes.data,
            sums.source.place(sums.source_channel),
            sums.out.place(sums.out_channel),
            1,
            1,
            c.Finish(),
        )
        made.keep = (keep, bias)
        return made

    return make


def _padded_rows(sums: Sums) -> NDArray[np.float32]:
    """The matrix with zeros up to whole vectors."""
    columns = sums.num_columns
    made = np.zeros((sums.num_rows, rounded(columns)), np.float32)
    made[:, :columns] = np.asarray(sums.node.weight).reshape(sums.num_rows, columns)
    return made
