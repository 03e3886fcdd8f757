"""Runs consecutive sparse layers in one call of C: convolutions and linear layers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.fast_call import readable
from sparsegate_runtime.engine import (
    LANES,
    POINTER,
    CRows,
    CSlices,
    Rows,
    Slices,
    scratch,
)
from sparsegate_runtime.kernels import KERNELS

from .chain_in_c import CCall, CChain, CLayer
from .chain_layer import MAX_VECTORS, PATCH, ChainLayer, up

WORTH_A_THREAD = 100_000
"""Steps of a kernel (some nanoseconds each) for which another thread pays off."""
SMALL = 2**18
"""Floats of scratch memory that may be allocated for each call; larger memory is kept."""
MOST_COLUMNS = 2**16  # slices store columns in 16 bits


class Chain:
    """Consecutive layers, packed for the kernels; takes any number of images of one shape."""

    def __init__(self, layers: Sequence[ChainLayer]) -> None:
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
        """Returns the flat outputs for images; uses torch's number of threads."""
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
        """The C function, its context, and what must be kept alive; None for large chains.

        Args:
            count: the number of images.
        """
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
    """A chain packed for single images, or for batches of `vectors` times sixteen images."""

    def __init__(self, layers: tuple[ChainLayer, ...], single: bool, vectors: int) -> None:
        self.single = int(single)
        self.work = sum(_steps(layer) for layer in layers) // (
            1 if single else LANES
        )  # for one image
        self._keep: list[Any] = []  # owns the memory that C points into
        nexts = (*layers[1:], None)
        packed = (CLayer * len(layers))(
            *(self._layer(*each, vectors) for each in zip(layers, nexts, strict=True))
        )
        channels, height, width = layers[0].in_shape
        self._chain = CChain(
            ctypes.addressof(packed),
            len(layers),
            channels,
            height,
            width,
            prod(layers[-1].out_shape),
            up(
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

    def _layer(self, layer: ChainLayer, after: ChainLayer | None, vectors: int) -> CLayer:
        empty = torch.zeros(len(layer.weight))
        bias = np.ascontiguousarray(
            (empty if layer.bias is None else layer.bias.detach()).numpy().astype(np.float32)
        )
        work, inside = layer.weights.before_row, layer.inside(after) if self.single else None
        made = CLayer(
            layer.is_linear,
            layer.relu,
            *layer.padding,
            *layer.stride,
            *layer.phase(single=bool(self.single)),
            layer.input_size(single=bool(self.single)),
            len(layer.weight),
            *layer.conv_shape,
            layer.pool,
            layer.pool_stride,
            *layer.out_shape[1:],
            *layer.reach,
            *PATCH,
            layer.slots,
            0 if inside is None else inside.ctypes.data,
            bias.ctypes.data,
            work.ctypes.data,
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


def _steps(layer: ChainLayer) -> int:
    """Vector multiplications for one image, for the decision how many threads are worth it."""
    return len(layer.weights.value) * -(-prod(layer.conv_shape) // LANES)


def _positions(layer: ChainLayer) -> int:
    return layer.conv_shape[0] * max(layer.phase(single=True)[1], LANES)


FUNCTION = ctypes.cast(KERNELS.sg_chain_direct, POINTER).value or 0 if KERNELS is not None else 0
VARIANT = int(KERNELS.sg_variant()) if KERNELS is not None else 0
"""The best variant of the kernels for this processor: 2 is AVX-512, 1 is AVX2, 0 is any."""
