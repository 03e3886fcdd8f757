"""Dense convolutions by Winograd's method, with a fifth or a sixth of the multiplications."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from sparsegate.fast_call import readable
from sparsegate_runtime.engine import LANES, LONG, POINTER, aligned, scratch
from sparsegate_runtime.kernels import KERNELS

from .chain import VARIANT, WORTH_A_THREAD
from .chain_layer import ChainLayer

PLACES = {6: np.array([0.0, 1, -1, 2, -2]), 8: np.array([0.0, 1, -1, 2, -2, 0.5, -0.5])}
"""Points at which polynomials are multiplied, besides infinity (Lavin and Gray, 2015).

The keys are the sizes of input tiles. A tile gives as many outputs in a direction as it has
inputs, minus the kernel size, plus one.
"""
NEAR = 512 * 1024
"""Bytes of transformed inputs and sums in a block of tiles: they fit into the L2 cache."""
FAR = 4 * 1024 * 1024
"""If the weights take more bytes, they do not fit into the L2 cache, and blocks are larger."""
LEAST, MANY = 28, 112
"""The least number of tiles in a block: normally, and if the weights do not fit."""
STRIP = 2 * LANES


class CWinograd(ctypes.Structure):
    """`Winograd` of winograd.h."""

    _fields_ = (
        *((name, LONG) for name in ("channels", "rows", "height", "width", "pad_y", "pad_x")),
        *(
            (name, LONG)
            for name in ("conv_height", "conv_width", "tile", "out_tile", "relu", "pool", "block")
        ),
        ("weight", POINTER),
        ("bias", POINTER),
    )


def weights_forth(tile: int, taps: int) -> NDArray[np.float64]:
    """The matrix G, which transforms a line of weights.

    >>> weights_forth(6, 3)[1]
    array([-0.16666667, -0.16666667, -0.16666667])
    """
    places = PLACES[tile]
    scales = 1 / np.prod(places[:, None] - _others(tile), axis=1)
    finite = scales[:, None] * places[:, None] ** np.arange(taps)
    return np.concatenate([finite, np.eye(taps)[-1:]])


def inputs_forth(tile: int) -> NDArray[np.float64]:
    """The matrix B', which transforms a line of inputs: coefficients of products of (x - point).

    >>> inputs_forth(6)[0]
    array([ 4.,  0., -5.,  0.,  1.,  0.])
    """
    finite = (np.append(np.poly(others)[::-1], 0) for others in _others(tile))
    return np.array([*finite, np.poly(PLACES[tile])[::-1]])


def back(tile: int, taps: int) -> NDArray[np.float64]:
    """The matrix A', which transforms the products to outputs.

    >>> back(6, 5)
    array([[ 1.,  1.,  1.,  1.,  1.,  0.], [ 0.,  1., -1.,  2., -2.,  1.]])
    """
    outputs = tile + 1 - taps
    finite = PLACES[tile][None, :] ** np.arange(outputs)[:, None]
    return np.concatenate([finite, np.eye(outputs)[:, -1:]], axis=1)


def _others(tile: int) -> NDArray[np.float64]:
    return np.array([np.delete(PLACES[tile], k) for k in range(tile - 1)])


def fits_winograd(layer: ChainLayer) -> bool:
    """Whether the kernel can run a layer: 3 x 3 or 5 x 5, stride 1, multiples of 16 channels."""
    if (
        layer.is_linear
        or layer.groups > 1
        or {*layer.stride, *layer.dilation} != {1}
        or min(layer.conv_shape) < 1
    ):
        return False
    rows, channels, *taps = layer.weight.shape
    return tuple(taps) in ((3, 3), (5, 5)) and rows % LANES == channels % LANES == 0


class Winograd:
    """A packed convolution with its ReLU and 2 x 2 pooling; images have channels last."""

    def __init__(self, layer: ChainLayer, tile: int) -> None:
        assert KERNELS is not None
        (self.layer, self.tile), (rows, channels, taps, _) = (layer, tile), layer.weight.shape
        bias = torch.zeros(rows) if layer.bias is None else layer.bias.detach().float().contiguous()
        weight = packed(layer.weight, tile)
        block = (
            MANY if weight.nbytes > FAR else max(LEAST, NEAR // (4 * tile**2 * (channels + rows)))
        )
        sizes = (channels, rows, *layer.in_shape[1:], *layer.padding, *layer.conv_shape)
        settings = (tile, tile + 1 - taps, layer.relu, layer.pool, block)
        self._packed = CWinograd(*sizes, *settings, weight.ctypes.data, bias.data_ptr())
        num_tiles = prod(-(-size // (tile + 1 - taps)) for size in layer.conv_shape)
        self._work = num_tiles * weight.size // LANES  # for one image
        self._keep: tuple[Any, ...] = (weight, bias)
        self._address, self._run = ctypes.addressof(self._packed), KERNELS.sg_winograd
        self.scratch = int(KERNELS.sg_winograd_scratch(self._address, 1))

    def __call__(
        self, images: Float[Tensor, "batch channels height width"], *, variant: int = VARIANT
    ) -> Float[Tensor, "batch rows out_height out_width"]:
        """Returns the outputs; uses torch's number of threads."""
        images = readable(images, torch.channels_last)
        threads = min(torch.get_num_threads(), 1 + len(images) * self._work // WORTH_A_THREAD)
        out = torch.empty((len(images), *self.layer.out_shape), memory_format=torch.channels_last)
        memory = scratch(self.scratch * threads)
        self._run(
            self._address, images.data_ptr(), out.data_ptr(), len(images), memory, threads, variant
        )
        return out


def packed(weight: Float[Tensor, "rows channels taps taps"], tile: int) -> NDArray[np.float32]:
    """The transformed weights, in strips of two vectors of rows.

    Their shape is [points, strips * channels * rows of a strip].
    """
    taps = weight.shape[-1]
    forth, each = weights_forth(tile, taps), weight.detach().double().numpy()
    at_places = np.einsum("ay,kcyx,bx->abck", forth, each, forth, optimize=True).reshape(
        tile**2, *each.shape[1::-1]
    )
    strips = [
        at_places[:, :, row : row + STRIP].reshape(tile**2, -1)
        for row in range(0, len(each), STRIP)
    ]
    found = aligned(weight.numel() // taps**2 * tile**2).reshape(tile**2, -1)
    np.concatenate(strips, axis=1, out=found, casting="same_kind")
    return found
