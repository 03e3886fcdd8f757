"""A chain of sparse layers that one call in C runs: convolutions, linear layers, what follows each."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from sparsegate.fast_call import readable
from sparsegate_runtime.engine import (
    LANES,
    NEAR,
    POINTER,
    CRows,
    CSlices,
    Rows,
    Slices,
    Weights,
    columns_in_block,
    scratch,
    spread,
)
from sparsegate_runtime.kernels import KERNELS

from .chain_in_c import CCall, CChain, CLayer

MAX_VECTORS = 4
PATCH = (2, 7)
"""Lines and places in a line whose sums a convolution of sixteen images holds in registers, where there are as many."""
PATCH_NEAR = 34 * 1024
"""Bytes of input that a block of its channels may touch: searched, and best a little above the first cache."""
WORTH_A_THREAD = 100_000
"""Steps of a kernel, each some nanoseconds, for which it pays to wake another thread."""
SMALL = 2**18
"""Floats of scratch memory that can be allocated for a single call: what is larger is kept from call to call."""
NARROW = LANES // 2
"""Places of a line that half a vector has room for: such lines are kept apart, one in every half."""
MOST_COLUMNS = 2**16  # of slices, whose columns are 16-bit numbers


@dataclass(frozen=True)
class Layer:
    """A linear or convolutional layer with the pooling and the rectifier that follow it."""

    weight: Float[Tensor, "rows columns *kernel"]
    bias: Float[Tensor, " rows"] | None
    in_shape: tuple[int, int, int]
    """Channels, height and width of one input; a vector of features is one by one."""
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    pool: int = 1
    pool_stride: int = 1
    relu: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether it takes a vector of features."""
        return self.weight.ndim == 2

    def phase(self, *, single: bool) -> tuple[int, int]:
        """Height and width of one of the stride's phases of the padded input.

        For one image, lines that are read in pieces of eight begin where the cache's lines do: then no piece crosses.
        For sixteen, there may be room after an image, so that those of all channels find a place in the cache.
        """
        sizes = zip(self.in_shape[1:], self.padding, self.stride, strict=True)
        height, width = (-(-(size + 2 * pad) // stride) for size, pad, stride in sizes)
        if single or self.is_linear or self.stride != (1, 1):
            return height, _up(width) if single and not self.is_linear and self.conv_shape[
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
        """Whether offsets of 32 bits, in bytes, reach every place of the largest panel."""
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
        """The kept weights; the column of a convolution's counts its input channels, lines and places in a line."""
        weight = self.weight.detach().numpy()
        where = np.nonzero(weight)
        shape = (len(weight), prod(weight.shape[1:]))
        column = np.ravel_multi_index(where[1:], weight.shape[1:])
        return Weights(where[0], column, weight[where].astype(np.float32), shape[0])

    @property
    def reach(self) -> tuple[int, int]:
        """Places from the first to the last tap, down and across."""
        if self.is_linear:
            return 0, 0
        down, across = (
            step * (taps - 1)
            for step, taps in zip(self.dilation, self.weight.shape[2:], strict=True)
        )
        return down, across

    @property
    def slots(self) -> int:
        """Lines of sums that a convolution of sixteen images keeps for each row."""
        return max(self.pool, PATCH[0])

    def rows(self, *, single: bool, lanes: int, tile: tuple[int, int]) -> Rows:
        """Rows for kernels that keep so many floats for one place, and take `tile` lines and places at a time."""
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

    def inside(self, after: Layer | None) -> NDArray[np.int32] | None:
        """All bits where one image's sums are places of its output, if they can go straight to the layer after.

        They can where that reads them as they are, in lines of the same length: what is between the lines of sums lies
        in its padding, and becomes zero. Nothing may be written beyond that.
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
        place = np.arange(NARROW if width <= NARROW else _up(end))
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
        """The input channel of every weight, and its place in the phases of the padded input."""
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


class Chain:
    """Layers one after the other, packed for the kernels; takes images of one shape, any number of them."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)
        self.in_shape, self.out_shape = layers[0].in_shape, layers[-1].out_shape
        self._only_linear = all(layer.is_linear for layer in layers)
        self._too_long = any(
            layer.is_linear and layer.weight.shape[1] > MOST_COLUMNS for layer in layers
        )
        self.out_size = prod(self.out_shape)
        self._forms: dict[tuple[bool, int], _Form] = {}
        self._form_for: dict[int, _Form] = {}

    def __call__(
        self, images: Float[Tensor, "batch *shape"], *, variant: int | None = None
    ) -> Float[Tensor, "batch features"]:
        """The flat outputs of images, by as many threads as torch has."""
        images = readable(images)
        count = len(images)
        form = self._form_for.get(count) or self._form(count)
        threads = min(torch.get_num_threads(), 1 + count * form.work // WORTH_A_THREAD)
        out = images.new_empty((count, self.out_size))
        memory = scratch(form.scratch * threads)
        kind = VARIANT if variant is None else variant
        form.run(
            form.address,
            images.data_ptr(),
            out.data_ptr(),
            count,
            memory,
            form.single,
            threads,
            kind,
        )
        return out

    def in_c(self, count: int) -> tuple[tuple[int, int], object] | None:
        """Function and context of one call in C for as many images, and what must be kept; nothing for large chains."""
        form = self._form_for.get(count) or self._form(count)
        if form.scratch > SMALL:
            return None
        call = CCall(form.address, form.single, VARIANT, form.work, WORTH_A_THREAD)
        return (FUNCTION, ctypes.addressof(call)), (form, call)

    def _form(self, count: int) -> _Form:
        single = count < 4 and not self._too_long
        vectors = (
            min(MAX_VECTORS, 1 << max(0, -(-count // LANES) - 1).bit_length())
            if self._only_linear
            else 1
        )
        key = (single, 1 if single else vectors)
        if key not in self._forms:
            self._forms[key] = _Form(self.layers, *key)
        self._form_for[count] = self._forms[key]
        return self._forms[key]


class _Form:
    """A chain packed for one image at a time, or for so many vectors of sixteen images."""

    def __init__(self, layers: tuple[Layer, ...], single: bool, vectors: int) -> None:
        self.single = int(single)
        self.work = sum(_steps(layer) for layer in layers) // (
            1 if single else LANES
        )  # for one image
        self._keep: list[Any] = []  # what C has pointers into
        nexts = (*layers[1:], None)
        packed = (CLayer * len(layers))(
            *(self._layer(*each, vectors) for each in zip(layers, nexts, strict=True))
        )
        channels, height, width = layers[0].in_shape
        self._chain = CChain(
            ctypes.addressof(packed),
            *(len(layers), channels, height, width, prod(layers[-1].out_shape)),
            _up(
                max(max(layer.input_size(single=single), prod(layer.out_shape)) for layer in layers)
            ),
            max(len(layer.weight) * layer.slots * layer.conv_shape[1] * LANES for layer in layers),
            max(len(layer.weight) * (_positions(layer) + LANES) for layer in layers),
            vectors,
        )
        self._keep.append(packed)
        self.address = ctypes.addressof(self._chain)
        assert KERNELS is not None
        self.run = KERNELS.sg_chain
        self.scratch = int(KERNELS.sg_chain_scratch(self.address, self.single, 1))

    def _layer(self, layer: Layer, after: Layer | None, vectors: int) -> CLayer:
        empty = torch.zeros(len(layer.weight))
        bias = np.ascontiguousarray(
            (empty if layer.bias is None else layer.bias.detach()).numpy().astype(np.float32)
        )
        work, inside = layer.weights.before_row, layer.inside(after) if self.single else None
        made = CLayer(
            *(layer.is_linear, layer.relu, *layer.padding, *layer.stride),
            *(*layer.phase(single=bool(self.single)), layer.input_size(single=bool(self.single))),
            *(
                len(layer.weight),
                *layer.conv_shape,
                layer.pool,
                layer.pool_stride,
                *layer.out_shape[1:],
            ),
            *(*layer.reach, *PATCH, layer.slots, 0 if inside is None else inside.ctypes.data),
            *(bias.ctypes.data, work.ctypes.data),
        )
        self._keep += [bias, work, inside]
        if not self.single:
            made.panel = self._kept(layer.rows(single=False, lanes=LANES * vectors, tile=PATCH))
        elif layer.is_linear:
            made.slices = self._kept(Slices.of(layer.weights))
        else:
            made.single = self._kept(layer.rows(single=True, lanes=1, tile=(1, 28 * LANES)))
        return made

    def _kept(self, arrays: Rows | Slices) -> CRows | CSlices:
        self._keep.append(arrays)
        return arrays.as_c()


def _steps(layer: Layer) -> int:
    """Multiplications of one image, sixteen at a time where a convolution has as many places."""
    return len(layer.weights.value) * -(-prod(layer.conv_shape) // LANES)


def _positions(layer: Layer) -> int:
    return layer.conv_shape[0] * max(layer.phase(single=True)[1], LANES)


def _up(size: int) -> int:
    """The next multiple of a cache line's floats."""
    return -(-size // LANES) * LANES


FUNCTION = ctypes.cast(KERNELS.sg_chain_direct, POINTER).value or 0 if KERNELS is not None else 0
VARIANT = int(KERNELS.sg_variant()) if KERNELS is not None else 0
"""The kernels' best variant for this processor: 2 is AVX-512, 1 AVX2, 0 any."""
