"""Runs a convolution and the pool behind it in bands of lines, which stay in the caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import network as n
from . import structures as c
from .layout import fill
from .pending import Pending
from .structures import Kind
from .tensor import SLACK, Buffer, Tensor

if TYPE_CHECKING:
    from .planner import Planner

WORTH = 2**19
"""Floats between the two from which on bands are faster."""
MULTIPLY = (Kind.MULTIPLY, Kind.DENSE_MULTIPLY)
LINES = 4
"""Lines of the pool that a band makes."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A convolution of images side by side, and the pool that alone reads it."""

    planner: Planner
    node: n.Pool
    conv: Pending
    between: Tensor
    """[images, channels, height, width]: what the pool reads."""

    @classmethod
    def of(cls, planner: Planner, node: n.Pool, source: Tensor) -> Pair | None:
        """None if something else reads the convolution, or if it fits into the caches anyway."""
        read = node.inputs[0]
        readers = sum(other.inputs.count(read) for other in planner.network.nodes)
        if readers != 1 or read in planner.network.outputs or source.buffer.size < WORTH:
            return None
        writers = [one for one in planner.pending if source.buffer in one.writes]
        convs = [one for one in writers if one.kind in MULTIPLY]
        borders = [one for one in writers if one.kind in (Kind.FILL, Kind.COPY)]
        if len(convs) != 1 or len(borders) + 1 != len(writers) or not convs[0].ranges:
            return None
        return cls(planner, node, convs[0], source)

    def emit(self, pool: Pending) -> None:
        """Puts bands in the place of the convolution; `pool` is the operation for all lines."""
        planner, taps = self.planner, (self.node.kernel[0] - 1) * self.node.dilation[0] + 1
        planner.pending[:] = [
            one for one in planner.pending if self.between.buffer not in one.writes
        ]
        lines = (LINES - 1) * self.node.stride[0] + taps
        band = self._band(lines)
        if self.between.buffer.is_clean:
            around = (-band.buffer.lead, band.buffer.extent)
            fill(planner, band, 1, around, self.between.buffer.border)
        height = self.node.shape[2]
        for top in range(0, height, LINES):
            self._emit_band(pool, band, top, min(top + LINES, height), lines)

    def _band(self, lines: int) -> Tensor:
        """Memory for some lines, laid out like the whole."""
        _, channels, _, width = self.between.shape
        image, _, line, pixel = self.between.strides
        step = lines * line + line
        buffer = Buffer(channels * step + line + SLACK, lead=line, extent=lines * line)
        shape = (self.between.shape[0], channels, lines, width)
        return Tensor(buffer, line, shape, (image, step, line, pixel))

    def _emit_band(self, pool: Pending, band: Tensor, top: int, end: int, lines: int) -> None:
        line, size = self.between.strides[2], self.between.shape[3] * self.between.strides[3]
        first = top * self.node.stride[0] - self.node.padding[0]
        height = self.between.shape[2]
        real = range(max(0, first), min(height, first + lines))
        if first + lines > height and self.between.buffer.is_clean:
            below = (max(0, height - first) * line, lines * line)
            fill(self.planner, band, 1, below, self.between.buffer.border)
        ranges = tuple((y * line, y * line + size) for y in real)
        shift = -first * line
        make_conv, make_pool = self.conv.make, pool.make

        def conv_of_band() -> c.Structure:
            made = make_conv()
            assert isinstance(made, c.Multiply | c.DenseMultiply)
            made.out = band.place(1)
            made.out.offset += shift
            return made

        def pool_of_band() -> c.Structure:
            made = make_pool()
            assert isinstance(made, c.Pool)
            made.input = band.place(1)
            made.input.offset += shift
            return made

        work = self.conv.work * len(real) / height
        conv = replace(self.conv, make=conv_of_band, writes=(band.buffer,), ranges=ranges)
        if ranges:
            self.planner.pending.append(replace(conv, work=work))
        out = self.planner.borders.grid(self.node).line * self.between.strides[3]
        wide = self.node.shape[3] * self.between.strides[3]
        rows = tuple((y * out, y * out + wide) for y in range(top, end))
        self.planner.pending.append(
            replace(pool, make=pool_of_band, reads=(band.buffer,), ranges=rows)
        )
