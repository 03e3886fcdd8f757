"""What the kernels in C compute, in float64 and plain Python.

Each function has the name of its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from sparsegate.runtime.chain_layer import PATCH, ChainLayer
from sparsegate.runtime.winograd import back, inputs_forth, weights_forth
from sparsegate_runtime.engine import LANES, Rows, Slices

Doubles = NDArray[np.float64]


def chain(
    layers: Sequence[ChainLayer], images: Float[Tensor, "batch *shape"]
) -> Float[Tensor, "batch features"]:
    """`sg_chain`: one layer after the other on dense weights, and nothing of how they are packed.

    >>> layer = ChainLayer(torch.tensor([[1.0, 0.0], [-3.0, 0.0]]), None, (2, 1, 1), relu=True)
    >>> chain([layer], torch.tensor([[5.0, 7.0]]))
    tensor([[5., 0.]], dtype=torch.float64)
    """
    for layer in layers:
        weight, bias = layer.weight.double(), None if layer.bias is None else layer.bias.double()
        images = images.double().reshape(len(images), *layer.in_shape)
        if layer.is_linear:
            images = F.linear(images.flatten(1), weight, bias)[:, :, None, None]
        else:
            images = F.conv2d(
                images, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups
            )
        images = _followed(layer, images)
    return images.flatten(1)


def panel_conv(
    layer: ChainLayer, images: Float[Tensor, "batch *shape"]
) -> Float[Tensor, "batch features"]:
    """A convolution of sixteen images at a time: an input's places are sixteen floats apart."""
    return _conv(layer, images, single=False)


def single_conv(
    layer: ChainLayer, images: Float[Tensor, "batch *shape"]
) -> Float[Tensor, "batch features"]:
    """A convolution of one image: an input's places are neighbors."""
    return _conv(layer, images, single=True)


def panel_linear(
    layer: ChainLayer, images: Float[Tensor, "batch *shape"], vectors: int = 1
) -> Float[Tensor, "batch features"]:
    """A linear layer on sixteen images at a time, or on several times sixteen."""
    lanes, x = LANES * vectors, images.double().flatten(1).numpy().T
    sums = tile(
        layer.rows(single=False, lanes=lanes, tile=(1, 1)),
        lanes,
        x,
        np.zeros(1, np.int64),
        _bias(layer),
    )
    return _followed(layer, torch.from_numpy(sums).permute(2, 0, 1)[..., None]).flatten(1)


def single_linear(
    layer: ChainLayer, images: Float[Tensor, "batch *shape"]
) -> Float[Tensor, "batch features"]:
    """A linear layer on one image: slices of rows, step by step."""
    slices, x = Slices.of(layer.weights), images.double().flatten(1).numpy()
    num_slices = len(slices.start) - 1
    side_by_side = len(slices.row) // num_slices
    sums = np.tile(_bias(layer), (len(x), 1))
    for s in range(num_slices):
        for seat in np.arange(side_by_side)[slices.row[s * side_by_side :][:side_by_side] >= 0]:
            places = np.arange(slices.start[s], slices.start[s + 1]) * side_by_side + seat
            sums[:, slices.row[s * side_by_side + seat]] += (
                x[:, slices.column[places]] @ slices.value[places]
            )
    return _followed(layer, torch.from_numpy(sums)[..., None, None]).flatten(1)


def tile(rows: Rows, lanes: int, x: Doubles, first: NDArray[np.int64], bias: Doubles) -> Doubles:
    """The kernel inside the others: from the bias on, every weight adds its input, block after block.

    `x` is [places, images], `first` the place of each tile's first input; the sums are [rows,
    tiles, images].
    """
    sums = np.broadcast_to(bias[:, None, None], (len(bias), len(first), x.shape[1])).copy()
    for start in rows.start:
        for row, (begin, end) in enumerate(pairwise(start)):
            for k in range(begin, end):
                sums[row] += float(rows.value[k]) * x[first + rows.offset[k] // (4 * lanes)]
    return sums


def winograd(
    layer: ChainLayer, images: Float[Tensor, "batch *shape"], side: int
) -> Float[Tensor, "batch features"]:
    """`sg_winograd`: tiles of side by side inputs, multiplied at as many places, taken back to outputs."""
    taps = layer.weight.shape[-1]
    forth, here, outputs = inputs_forth(side), weights_forth(side, taps), side + 1 - taps
    (height, width), (pad_y, pad_x) = layer.conv_shape, layer.padding
    down, across = (-(-size // outputs) for size in (height, width))
    padded = np.zeros(
        (len(images), layer.in_shape[0], outputs * down + taps - 1, outputs * across + taps - 1)
    )
    padded[:, :, pad_y : pad_y + layer.in_shape[1], pad_x : pad_x + layer.in_shape[2]] = (
        images.double().numpy()
    )
    tiles = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3))[
        :, :, ::outputs, ::outputs
    ]
    inputs = np.einsum("ai,nctuij,bj->nctuab", forth, tiles, forth, optimize=True)
    weights = np.einsum(
        "ay,kcyx,bx->kcab", here, layer.weight.detach().double().numpy(), here, optimize=True
    )
    products = np.einsum("nctuab,kcab->nktuab", inputs, weights, optimize=True)
    sums = np.einsum(
        "ya,nktuab,xb->nktyux", back(side, taps), products, back(side, taps), optimize=True
    )
    whole = sums.reshape(len(images), len(layer.weight), outputs * down, outputs * across)[
        :, :, :height, :width
    ]
    return _followed(layer, torch.from_numpy(whole + _bias(layer)[:, None, None])).flatten(1)


def place(layer: ChainLayer, images: Float[Tensor, "batch *shape"], *, single: bool) -> Doubles:
    """The padded input in the stride's phases, as [places, images]."""
    (channels, height, width), (pad_y, pad_x), (sy, sx), (rows, columns) = (
        *(layer.in_shape, layer.padding, layer.stride, layer.phase(single=single)),
    )
    padded = np.zeros((len(images), channels, rows * sy, columns * sx))
    inside = padded[:, :, pad_y : pad_y + height, pad_x : pad_x + width]
    inside[:] = images.double().reshape(len(images), *layer.in_shape).numpy()
    phases = padded.reshape(len(images), channels, rows, sy, columns, sx).transpose(
        1, 3, 5, 2, 4, 0
    )
    return phases.reshape(-1, len(images))


def _conv(layer: ChainLayer, images: Tensor, *, single: bool) -> Tensor:
    height, width = layer.conv_shape
    lanes = 1 if single else LANES
    first = (np.arange(height)[:, None] * layer.phase(single=single)[1] + np.arange(width)).reshape(
        -1
    )
    rows = layer.rows(single=single, lanes=lanes, tile=(1, 28 * LANES) if single else PATCH)
    sums = tile(rows, lanes, place(layer, images, single=single), first, _bias(layer))
    shape = (len(layer.weight), height, width, len(images))
    return _followed(layer, torch.from_numpy(sums).reshape(shape).permute(3, 0, 1, 2)).flatten(1)


def _followed(layer: ChainLayer, sums: Tensor) -> Tensor:
    sums = sums if layer.is_linear else F.max_pool2d(sums, layer.pool, layer.pool_stride)
    return sums.relu() if layer.relu else sums


def _bias(layer: ChainLayer) -> Doubles:
    bias = torch.zeros(len(layer.weight)) if layer.bias is None else layer.bias.detach()
    return bias.double().numpy()
