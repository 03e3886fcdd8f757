"""Lays images out one after the other, with a border between lines and between images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import structures as c
from .layout import Layout, Written, fill
from .network import Node
from .structures import Kind
from .tensor import SLACK, Buffer, Phases, Positions, Tensor, rounded, spaced

if TYPE_CHECKING:
    from .planner import Planner


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
        """All images with the borders between them."""
        return 1 + sum((out.shape[dim] - 1) * out.strides[dim] for dim in (0, 2, 3))

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
        is_summed: bool = False,
    ) -> Written:
        """All positions; those of the border become zero by a mask."""
        positions = positions or out.positions(channel)
        if positions is None or (border is None and not is_summed):
            return Written()
        out.buffer.zero_gaps = (out.offset, out.shape, out.strides)
        if border is None:
            return Written(positions.inside(positions.count))
        out.buffer.is_clean = True
        self._fill_ends(out, channel, positions)
        return Written(positions.inside(positions.count))

    def _fill_ends(self, out: Tensor, channel: int, positions: Positions) -> None:
        """Zeros before the first image and after the last one."""
        lead, step = out.buffer.lead, out.strides[channel]
        begin, end = positions.count, max(out.buffer.extent, positions.extent)
        if not lead:
            if begin < end:
                fill(self.planner, out, channel, (begin, end), 0.0)
            return
        fill(self.planner, out.slice(channel, 0, 1, 1), channel, (-lead, 0), 0.0)
        if step - begin < 2 * (lead + end - begin):  # up to the next channel's first image
            fill(self.planner, out, channel, (begin, step), 0.0)
            return
        fill(self.planner, out, channel, (-lead, 0), 0.0)
        if begin < end:
            fill(self.planner, out, channel, (begin, end), 0.0)
