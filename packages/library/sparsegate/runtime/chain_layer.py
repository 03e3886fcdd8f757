"""One layer of a chain: its weights, its shapes, and where the kernels find its input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from sparsegate_runtime.engine import LANES, NEAR, Rows, Weights, columns_in_block, spread

MAX_VECTORS = 4
PATCH = (2, 7)
"""Lines and columns of the output whose sums a convolution of sixteen images keeps in registers."""
PATCH_NEAR = 34 * 1024
"""Bytes of input that one block of channels may read. Best slightly above the L1 cache."""
NARROW = LANES // 2
"""Lines that fit into half a vector are stored one in each half."""


@dataclass(frozen=True)
class ChainLayer:
    """A linear or convolutional layer, with the pooling and the ReLU that follow it."""

    weight: Float[Tensor, "rows columns *kernel"]
    bias: Float[Tensor, " rows"] | None
    in_shape: tuple[int, int, int]
    """Channels, height and width of one input; a vector of features has height and width 1."""
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    pool: int = 1
    pool_stride: int = 1
    relu: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether the layer takes vectors of features."""
        return self.weight.ndim == 2

    def phase(self, *, single: bool) -> tuple[int, int]:
        """Height and width of the padded input, or of each part of it if the stride is above one.

        A convolution with a stride splits its input: part (y, x) has every `stride`-th line and
        column, from y and x on. For one image, widths are rounded up so that vectors do not cross
        cache lines. For sixteen images, space between channels may be added so that the channels of
        a block do not compete for the same part of the cache.
        """
        sizes = zip(self.in_shape[1:], self.padding, self.stride, strict=True)
        height, width = (-(-(size + 2 * pad) // stride) for size, pad, stride in sizes)
        if single or self.is_linear or self.stride != (1, 1):
            return height, up(width) if single and not self.is_linear and self.conv_shape[
                1
            ] <= NARROW else width
        down, across = (patch + reach for patch, reach in zip(PATCH, self.reach, strict=True))
        together = min(self.in_shape[0], PATCH_NEAR // (4 * LANES * down * across))
        return spread(height, width, (down, across), together)

    def input_size(self, *, single: bool) -> int:
        """Floats of the padded input of one image."""
        return self.in_shape[0] * prod(self.stride) * prod(self.phase(single=single))

    @property
    def is_within_reach(self) -> bool:
        """Whether 32-bit byte offsets can address the whole input of a panel of images."""
        return (
            4 * LANES * (MAX_VECTORS if self.is_linear else 1) * self.input_size(single=False)
            < 2**31
        )

    @property
    def conv_shape(self) -> tuple[int, int]:
        """Height and width of the output before pooling."""
        if self.is_linear:
            return 1, 1
        sizes = zip(
            self.in_shape[1:],
            self.weight.shape[2:],
            self.stride,
            self.padding,
            self.dilation,
            strict=True,
        )
        height, width = (
            (size + 2 * pad - dil * (taps - 1) - 1) // step + 1
            for size, taps, step, pad, dil in sizes
        )
        return height, width

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one output."""
        height, width = ((size - self.pool) // self.pool_stride + 1 for size in self.conv_shape)
        return len(self.weight), height, width

    @cached_property
    def weights(self) -> Weights:
        """The kept weights; a convolution's columns count input channels, then kernel positions."""
        weight = self.weight.detach().numpy()
        where = np.nonzero(weight)
        shape = (len(weight), prod(weight.shape[1:]))
        column = np.ravel_multi_index(where[1:], weight.shape[1:])
        return Weights(where[0], column, weight[where].astype(np.float32), shape[0])

    @property
    def reach(self) -> tuple[int, int]:
        """Distance from the first to the last kernel position, down and across."""
        if self.is_linear:
            return 0, 0
        down, across = (
            step * (taps - 1)
            for step, taps in zip(self.dilation, self.weight.shape[2:], strict=True)
        )
        return down, across

    @property
    def slots(self) -> int:
        """Lines of sums that a convolution of sixteen images keeps for each output channel."""
        return max(self.pool, PATCH[0])

    def rows(self, *, single: bool, lanes: int, tile: tuple[int, int]) -> Rows:
        """The rows of the layer, divided into blocks of columns whose inputs fit into the cache.

        Args:
            single: whether for one image.
            lanes: floats for each position of the input.
            tile: lines and columns of output that a kernel computes at a time.
        """
        channel, place = self._places(single)
        touched = (
            4
            * lanes
            * (1 if self.is_linear else prod(map(sum, zip(self.reach, tile, strict=True))))
        )
        near = PATCH_NEAR if tile == PATCH else NEAR
        each = columns_in_block(
            len(self.weights.value), self.weights.num_rows, self.weight.shape[1], touched, near
        )
        return Rows.of(self.weights, 4 * lanes * place, channel // each)

    def inside(self, after: ChainLayer | None) -> NDArray[np.int32] | None:
        """A mask of one image's sums, if they can be written straight into the next layer's input.

        That works if the next layer has lines of the same length and stride 1. The sums between the
        lines then fall into its padding and are set to zero. Returns None if it does not work.
        """
        if (
            after is None
            or self.is_linear
            or after.is_linear
            or self.pool > 1
            or self.pool_stride > 1
        ):
            return None
        (height, width), line = self.conv_shape, self.phase(single=True)[1]
        end = width if width <= NARROW else (height - 1) * line + width
        place = np.arange(NARROW if width <= NARROW else up(end))
        room = (
            line - width - after.padding[1]
            if width <= NARROW
            else after.padding[0] * line + after.padding[1]
        )
        fits = (
            after.stride == (1, 1)
            and after.phase(single=True)[1] == line
            and len(place) - end <= room
        )
        return -(place % line < width).astype(np.int32) * (place < end) if fits else None

    def _places(self, single: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The input channel of every weight, and its position in the padded, split input."""
        if self.is_linear:
            return self.weights.column, self.weights.column
        channel, y, x = np.unravel_index(self.weights.column, self.weight.shape[1:])
        channel = (
            channel + self.weights.row // (len(self.weight) // self.groups) * self.weight.shape[1]
        )
        (sy, sx), (height, width) = self.stride, self.phase(single=single)
        y, x = y * self.dilation[0], x * self.dilation[1]
        return channel, (
            ((channel * sy + y % sy) * sx + x % sx) * height + y // sy
        ) * width + x // sx


def up(size: int) -> int:
    """The next multiple of the number of floats in a cache line."""
    return -(-size // LANES) * LANES
