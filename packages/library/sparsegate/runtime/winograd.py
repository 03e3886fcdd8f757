"""A dense convolution by Winograd's method: a fifth of the multiplications for 3 x 3 taps, a sixth for 5 x 5."""

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
"""Where polynomials are multiplied, besides infinity (Lavin and Gray 2015), by a tile's inputs in each direction; with
so many taps, a tile gives as many outputs as it has inputs, less the taps, and one."""
NEAR = 512 * 1024
"""Bytes of transformed inputs and sums of a block of tiles: they stay in the second cache."""
FAR = 4 * 1024 * 1024
"""Bytes of weights that come from beyond it for every block, so that blocks had better be large."""
LEAST, MANY = 28, 112
"""Tiles of a block, at least, and with weights from afar."""
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
    """The matrix G that takes a line of weights to the places.

    >>> weights_forth(6, 3)[1]
    array([-0.16666667, -0.16666667, -0.16666667])
    """
    places = PLACES[tile]
    scales = 1 / np.prod(places[:, None] - _others(tile), axis=1)
    finite = scales[:, None] * places[:, None] ** np.arange(taps)
    return np.concatenate([finite, np.eye(taps)[-1:]])


def inputs_forth(tile: int) -> NDArray[np.float64]:
    """The matrix B' that takes a line of inputs there: the coefficients of the products of (x - place).

    >>> inputs_forth(6)[0]
    array([ 4.,  0., -5.,  0.,  1.,  0.])
    """
    finite = (np.append(np.poly(others)[::-1], 0) for others in _others(tile))
    return np.array([*finite, np.poly(PLACES[tile])[::-1]])


def back(tile: int, taps: int) -> NDArray[np.float64]:
    """The matrix A' that takes the products to the outputs.

    >>> back(6, 5)
    array([[ 1.,  1.,  1.,  1.,  1.,  0.], [ 0.,  1., -1.,  2., -2.,  1.]])
    """
    outputs = tile + 1 - taps
    finite = PLACES[tile][None, :] ** np.arange(outputs)[:, None]
    return np.concatenate([finite, np.eye(outputs)[:, -1:]], axis=1)


def _others(tile: int) -> NDArray[np.float64]:
    return np.array([np.delete(PLACES[tile], k) for k in range(tile - 1)])


def fits_winograd(layer: ChainLayer) -> bool:
    """Whether the kernel can run a layer: 3 x 3 or 5 x 5 taps, next to each other, channels in sixteens."""
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
    """A convolution with its rectifier and a pool of two by two, packed; takes and gives images with channels last."""

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
        self._work = num_tiles * weight.size // LANES  # of one image
        self._keep: tuple[Any, ...] = (weight, bias)
        self._address, self._run = ctypes.addressof(self._packed), KERNELS.sg_winograd
        self.scratch = int(KERNELS.sg_winograd_scratch(self._address, 1))

    def __call__(
        self, images: Float[Tensor, "batch channels height width"], *, variant: int = VARIANT
    ) -> Float[Tensor, "batch rows out_height out_width"]:
        """The outputs, by as many threads as torch has."""
        images = readable(images, torch.channels_last)
        threads = min(torch.get_num_threads(), 1 + len(images) * self._work // WORTH_A_THREAD)
        out = torch.empty((len(images), *self.layer.out_shape), memory_format=torch.channels_last)
        memory = scratch(self.scratch * threads)
        self._run(
            self._address, images.data_ptr(), out.data_ptr(), len(images), memory, threads, variant
        )
        return out


def packed(weight: Float[Tensor, "rows channels taps taps"], tile: int) -> NDArray[np.float32]:
    """The weights at all places, in strips of two vectors of rows: [places, strips * channels * rows of a strip]."""
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
