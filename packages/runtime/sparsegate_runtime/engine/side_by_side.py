"""Lays sixteen images out side by side: one pixel of all of them is one vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .borders import Grid
from .layout import Layout, Written, fill
from .network import Node
from .tensor import LANES, SLACK, Buffer, Phases, Positions, Tensor, spaced

if TYPE_CHECKING:
    from .planner import Planner


@dataclass(frozen=True, eq=False)
class SideBySide(Layout):
    """Sixteen images side by side: one vector holds the same pixel of all, always aligned.

    Strided operations read their pixels where they lie, and no kernel computes the border.
    """

    planner: Planner

    def images(self, node: Node, shape: tuple[int, ...]) -> Tensor:
        """Lines of pixels of sixteen floats."""
        grid = self.planner.borders.grid(node)
        grid.include(shape)
        line = LANES * grid.line
        lead, plane = grid.lead * line, grid.lines * line
        step = spaced(plane + lead)
        buffer = Buffer(shape[1] * step + lead + SLACK, lead=lead, extent=plane)
        return Tensor(buffer, lead, shape, (1, step, line, LANES))

    def extent(self, out: Tensor) -> int:
        """From the first pixel to the last."""
        return (out.shape[2] - 1) * out.strides[2] + out.shape[3] * LANES

    def on_grid(self, node: Node, source: Tensor, border: float = 0.0) -> Tensor:
        """Pixels of all images next to each other."""
        out = self.images(node, source.shape)
        self.written(out, 1, border)
        return self.planner.copy(source, out)

    def phases(
        self,
        node: Node,
        taps: Sequence[int],
        dilation: Sequence[int],
        stride: Sequence[int],
        before: Sequence[int],
        fill: float,
    ) -> Phases:
        """The input itself."""
        read = node.inputs[0]
        grid, out = self.planner.borders.grid(read), self.planner.borders.grid(node)
        reached = [np.arange(taps[axis]) * dilation[axis] - before[axis] for axis in (0, 1)]
        source = self.planner.values[read]
        if not self._fits(source, grid, reached, node, stride, fill):
            source = self.on_grid(read, source, fill)
        offsets = 4 * LANES * (reached[0][:, None] * grid.line + reached[1][None, :])
        is_same = tuple(stride) == (1, 1) and grid.line == out.line
        apart = (LANES * out.line, LANES * stride[0] * grid.line, stride[1])
        return Phases(
            source.permute((1, 0, 2, 3)),
            offsets.reshape(-1).astype(np.int32),
            (0, 0, 0) if is_same else apart,
        )

    def _fits(
        self,
        source: Tensor,
        grid: Grid,
        reached: Sequence[NDArray[np.int64]],
        node: Node,
        stride: Sequence[int],
        border: float,
    ) -> bool:
        """Whether images lie as they are read, with the right border where one is read."""
        line = LANES * grid.line
        beyond = any(
            reached[axis].min() < 0
            or (node.shape[2 + axis] - 1) * stride[axis] + reached[axis].max()
            >= source.shape[2 + axis]
            for axis in (0, 1)
        )
        lies = (
            not source.buffer.slot
            and source.strides[0] == 1
            and source.strides[2:] == (line, LANES)
        )
        first = max(0, -int(reached[0].min())) * line + max(0, -int(reached[1].min())) * LANES
        is_clean = source.buffer.is_clean and source.buffer.border == border
        return lies and source.buffer.lead >= first and (is_clean or not beyond)

    def written(
        self,
        out: Tensor,
        channel: int,
        border: float | None,
        positions: Positions | None = None,
        line: int = 0,
        is_summed: bool = False,  # noqa: ARG002
    ) -> Written:
        """The pixels alone; the border is filled before."""
        positions = positions or out.positions(channel) or _of_images(out)
        ranges = () if positions is None else positions.runs()
        if line:
            ranges = tuple(piece for one in ranges for piece in _split(one, line))
        if border is None or positions is None:
            return Written(ranges=ranges)
        out.buffer.is_clean, out.buffer.border = True, border
        if not ranges:
            if out.buffer.lead:
                fill(self.planner, out, channel, (-out.buffer.lead, 0), border)
            begin, end = positions.count, max(out.buffer.extent, positions.extent)
            if begin < end:
                fill(self.planner, out, channel, (begin, end), border)
            return Written(positions.inside(positions.count))
        self._fill_around(out, channel, ranges, border)
        return Written(ranges=ranges)

    def _fill_around(
        self, out: Tensor, channel: int, ranges: tuple[tuple[int, int], ...], border: float
    ) -> None:
        """Fills what lies before the first line, between lines, and after the last one."""
        first, last = ranges[0][1], ranges[-1][1]
        end = max(out.buffer.extent, last)
        if out.buffer.lead:
            fill(self.planner, out, channel, (-out.buffer.lead, 0), border)
        if end > last:
            fill(self.planner, out, channel, (last, end), border)
        if len(ranges) == 1 or ranges[1][0] == first:
            return
        step = ranges[1][0] - ranges[0][0]
        gap = Tensor(
            out.buffer,
            out.offset + first,
            (out.shape[channel], len(ranges) - 1, step - first),
            (out.strides[channel], step, 1),
        )
        value = self.planner.constant(np.float32(border))
        self.planner.copy(value.expand(gap.shape), gap)


def _of_images(out: Tensor) -> Positions | None:
    """The pixels of images that have more border than pixels; None if they are no such images."""
    if len(out.shape) != 4 or out.strides[0] != 1 or out.strides[3] != LANES:
        return None
    shape, strides = (out.shape[0], *out.shape[2:]), (1, *out.strides[2:])
    return Positions(shape, strides, out.shape[2] * out.strides[2])


def _split(positions: tuple[int, int], line: int) -> list[tuple[int, int]]:
    """Positions by lines.

    >>> _split((0, 96), 48)
    [(0, 48), (48, 96)]
    """
    begin, end = positions
    edges = [begin, *range((begin // line + 1) * line, end, line), end]
    return list(pairwise(edges))
