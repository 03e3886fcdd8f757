"""Lays images out in memory: one after the other, or sixteen of them side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import structures as c
from .borders import Grid
from .network import Node
from .structures import Kind
from .tensor import LANES, SLACK, Buffer, Phases, Positions, Tensor, rounded, spaced

if TYPE_CHECKING:
    from .planner import Planner


@dataclass(frozen=True)
class Written:
    """Which positions of a tensor an operation writes."""

    mask: NDArray[np.int32] | None = None
    """Zeros where a kernel writes zeros; None if it writes what it computes."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The positions to compute; all of them if there are none."""


class Layout(ABC):
    """CONTRACT Where the images of a network lie, and how strided operations read them."""

    @abstractmethod
    def images(self, node: Node, shape: tuple[int, ...]) -> Tensor:
        """A tensor [images, channels, height, width] on the grid of a node."""

    @abstractmethod
    def extent(self, out: Tensor) -> int:
        """Positions from the first to the last of such a tensor."""

    @abstractmethod
    def on_grid(self, node: Node, source: Tensor, border: float = 0.0) -> Tensor:
        """Images copied to the grid of a node, with a border around them."""

    @abstractmethod
    def phases(
        self,
        node: Node,
        taps: Sequence[int],
        dilation: Sequence[int],
        stride: Sequence[int],
        before: Sequence[int],
        fill: float,
    ) -> Phases:
        """What a convolution or pool reads, whose output lies on its grid."""

    @abstractmethod
    def written(
        self,
        out: Tensor,
        channel: int,
        border: float | None,
        positions: Positions | None = None,
        line: int = 0,
    ) -> Written:
        """What an operation writes to, with its border; its value is None if nothing reads it.

        Args:
            out: the tensor.
            channel: its dimension of channels.
            border: what the border must hold; None if nothing reads it.
            positions: the positions that the operation runs over; those of the tensor without it.
            line: floats of a line that no range goes beyond; 0 for no such lines.

        """


@dataclass(frozen=True, eq=False)
class InLines(Layout):
    """One image after the other, line by line, with a border between lines and between images."""

    planner: Planner

    def images(self, node: Node, shape: tuple[int, ...]) -> Tensor:
        """Lines of the grid, one after the other."""
        grid = self.planner.borders.grid(node)
        grid.include(shape)
        plane = grid.line * grid.lines
        lead = rounded(grid.lead * grid.line)
        extent = rounded(shape[0] * plane)
        step = spaced(extent + lead)
        buffer = Buffer(shape[1] * step + lead + SLACK, lead=lead, extent=shape[0] * plane)
        return Tensor(buffer, lead, shape, (plane, step, grid.line, 1))

    def extent(self, out: Tensor) -> int:
        """All images with their borders."""
        return out.strides[0] * out.shape[0]

    def on_grid(self, node: Node, source: Tensor, border: float = 0.0) -> Tensor:
        """One phase that is all of the images."""
        out = self.images(node, source.shape)
        self._take_apart(
            source,
            out.permute((1, 0, 2, 3)),
            (1, 1),
            (0, 0),
            (1, 1),
            0,
            border,
            out.buffer.lead,
            (source.shape[2], source.shape[3]),
        )
        out.buffer.is_clean, out.buffer.border = True, border
        return out

    def phases(
        self,
        node: Node,
        taps: Sequence[int],
        dilation: Sequence[int],
        stride: Sequence[int],
        before: Sequence[int],
        fill: float,
    ) -> Phases:
        """The input taken apart by the phases of the stride, on the grid of the output."""
        source = self.planner.values[node.inputs[0]]
        grid = self.planner.borders.grid(node)
        shifts, kinds = [], []
        for axis in (0, 1):
            reached = np.arange(taps[axis]) * dilation[axis]
            kinds.append(reached % stride[axis])
            shifts.append(reached // stride[axis])
        counts = tuple(int(kind.max()) + 1 for kind in kinds)
        sizes = tuple(node.shape[2 + axis] + int(shifts[axis].max()) for axis in (0, 1))
        line, plane = grid.line, grid.line * grid.lines
        phase = rounded(node.shape[0] * plane)
        step = spaced(counts[0] * counts[1] * phase)
        buffer = Buffer(source.shape[1] * step + SLACK + 2 * plane)
        out = Tensor(buffer, 0, (source.shape[1], node.shape[0], 1, 1), (step, plane, line, 1))
        self._take_apart(
            source, out, stride, (-before[0], -before[1]), counts, phase, fill, 0, sizes
        )
        lines = kinds[0] * counts[1] * phase + shifts[0] * line
        pixels = kinds[1] * phase + shifts[1]
        offsets = (4 * (lines[:, None] + pixels[None, :])).reshape(-1).astype(np.int32)
        return Phases(out, offsets)

    def _take_apart(
        self,
        source: Tensor,
        out: Tensor,
        stride: Sequence[int],
        first: Sequence[int],
        counts: Sequence[int],
        phase: int,
        fill: float,
        lead: int,
        sizes: Sequence[int],
    ) -> None:
        images, channels, height, width = source.shape
        step, plane, line, _ = out.strides

        def make() -> c.Structure:
            place = c.Place(out.buffer.slot, out.buffer.offset + out.offset - lead, step)
            return c.Phases(
                images, channels, height, width, source.view(),
                stride[0], stride[1], first[0], first[1], counts[0], counts[1],
                place, phase, lead, plane, line, sizes[0], sizes[1], fill, 0,
            )  # fmt: skip

        self.planner.emit(Kind.PHASES, make, [source], out)

    def written(
        self,
        out: Tensor,
        channel: int,
        border: float | None,
        positions: Positions | None = None,
        line: int = 0,  # noqa: ARG002
    ) -> Written:
        """All positions; those of the border become zero by a mask."""
        positions = positions or out.positions(channel)
        if border is None or positions is None:
            return Written()
        out.buffer.is_clean = True
        if out.buffer.lead:
            fill(self.planner, out, channel, (-out.buffer.lead, 0), 0.0)
        return Written(positions.inside(positions.extent))


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
    ) -> Written:
        """The pixels alone; the border is filled before."""
        positions = positions or out.positions(channel)
        ranges = () if positions is None else positions.runs()
        if line:
            ranges = tuple(piece for one in ranges for piece in _split(one, line))
        if border is None or positions is None:
            return Written(ranges=ranges)
        out.buffer.is_clean, out.buffer.border = True, border
        if not ranges:
            if out.buffer.lead:
                fill(self.planner, out, channel, (-out.buffer.lead, 0), border)
            return Written(positions.inside(positions.extent))
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


def _split(positions: tuple[int, int], line: int) -> list[tuple[int, int]]:
    """Positions by lines.

    >>> _split((0, 96), 48)
    [(0, 48), (48, 96)]
    """
    begin, end = positions
    edges = [begin, *range((begin // line + 1) * line, end, line), end]
    return list(pairwise(edges))


def fill(
    planner: Planner, out: Tensor, channel: int, positions: tuple[int, int], value: float
) -> None:
    """Writes a value to some positions of every channel."""
    begin, end = positions

    def make() -> c.Structure:
        place = out.place(channel)
        place.offset += begin
        return c.Fill(out.shape[channel], place, value, 0)

    planner.emit(Kind.FILL, make, [], out, extent=begin - end)
