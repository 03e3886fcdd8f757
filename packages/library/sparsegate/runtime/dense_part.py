"""Dense convolutions by kernels that are often faster than torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.graph import Conv
from sparsegate_runtime.engine import LANES
from sparsegate_runtime.kernels import KERNELS

from .chain_layer import ChainLayer
from .sparsable import Piece
from .winograd import Winograd, fits_winograd

TILES = {"winograd": 6, "winograd8": 8}
"""Size of the input tiles of our Winograd kernels; larger tiles need fewer multiplications."""
DENSE_KERNELS = ("packed", *TILES)
"""The kernel `packed` is oneDNN, with weights laid out in advance and the ReLU inside."""
NEAR = 13 * 1024 * 1024
"""Bytes of output that consecutive layers pass on at a time, so that they stay in the cache."""
Step = Callable[[Tensor], Tensor]


class DensePart(nn.Module):
    """Consecutive convolutions with what follows each; passes images on with channels last."""

    def __init__(self, pieces: Sequence[Piece], kernels: Sequence[str]) -> None:
        super().__init__()
        self.names, self.in_shape = [piece.name for piece in pieces], pieces[0].shapes["in"]
        self.levels = _levels(pieces, kernels)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output for any number of inputs of the shape that the part was made for."""
        if x.shape[1:] != self.in_shape or x.dtype is not torch.float32 or not x.is_cpu:
            raise ValueError(
                f"made for float32 inputs of shape {self.in_shape} on the CPU, got {x.dtype} "
                f"of shape {tuple(x.shape[1:])} on {x.device}; convert the input, or call "
                "sg.sparse again for the other kind"
            )
        return self._through(x, len(self.levels))

    def _through(self, x: Tensor, num_levels: int) -> Tensor:
        """The output of the first levels, computed a few images at a time."""
        if num_levels == 0:
            return x.contiguous(memory_format=torch.channels_last)
        few, steps = self.levels[num_levels - 1]
        out: Tensor | None = None
        for first in range(0, max(len(x), 1), few):
            found = self._through(x[first : first + few], num_levels - 1)
            for step in steps:
                found = step(found)
            if len(x) <= few:
                return found
            out = (
                torch.empty((len(x), *found.shape[1:]), memory_format=_layout(found))
                if out is None
                else out
            )
            out[first : first + few] = found
        assert out is not None
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> DensePart:
        return self  # never changed, so it can be shared

    def extra_repr(self) -> str:
        """The layers, for `print`."""
        return " -> ".join(self.names)


def _levels(pieces: Sequence[Piece], kernels: Sequence[str]) -> list[tuple[int, list[Step]]]:
    """Groups layers by how many images pass through them at a time."""
    levels: list[tuple[int, list[Step]]] = []
    for number, (piece, kernel) in enumerate(zip(pieces, kernels, strict=True)):
        few = together(pieces[number:])
        if not levels or levels[-1][0] != few:
            levels.append((few, []))
        levels[-1][1].extend(_steps(piece, kernel))
    return levels


def together(pieces: Sequence[Piece]) -> int:
    """How many images pass through these layers at a time."""
    largest = max(
        prod((len(layer.weight), *layer.conv_shape))
        for layer in (piece.layer() for piece in pieces)
    )
    few = max(1, NEAR // (4 * largest))
    return few if few < LANES else few // LANES * LANES


def dense_part(pieces: Sequence[Piece], kernels: Sequence[str]) -> DensePart:
    """Makes the part that runs consecutive convolutions, each by its kernel."""
    for piece, kernel in zip(pieces, kernels, strict=True):
        if kernel not in dense_kernels_for(piece):
            able = " or ".join(["dense", *dense_kernels_for(piece)])
            raise ValueError(
                f"{piece.name} can run here by {able}, got {kernel!r}; measure again with sg.sparse"
            )
    with torch.no_grad():
        return DensePart(pieces, kernels)


def dense_kernels_for(piece: Piece) -> list[str]:
    """The dense kernels that can run a layer on its device."""
    weight = piece.weight
    if not isinstance(piece.node, Conv) or not weight.is_cpu or weight.dtype is not torch.float32:
        return []
    return ["packed"] * has_packing() + [*TILES] * (
        KERNELS is not None and fits_winograd(piece.layer())
    )


@cache
def has_packing() -> bool:
    """Whether this torch has the operators for packed weights, which it has for its compiler."""
    try:
        layer, x = (
            ChainLayer(torch.full((1, 1, 1, 1), 3.0), None, (1, 2, 2)),
            torch.ones(1, 1, 2, 2),
        )
        with torch.autocast("cpu", enabled=False):
            return torch.allclose(_onednn(layer)(x), 3 * x)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False


def _steps(piece: Piece, kernel: str) -> list[Step]:
    """The kernel, followed by the pooling and reshaping that it does not do itself."""
    layer, out_shape = piece.layer(), piece.shapes["out"]
    if kernel == "packed":
        return [_onednn(layer), piece.pooled]
    if (layer.pool, layer.pool_stride) == (2, 2):
        return [Winograd(layer, TILES[kernel]), lambda x: x.reshape(len(x), *out_shape)]
    return [Winograd(replace(layer, pool=1, pool_stride=1), TILES[kernel]), piece.pooled]


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.ndim == 4 else torch.contiguous_format


def _onednn(layer: ChainLayer) -> Step:
    """A convolution by oneDNN, without the pooling."""
    settings = (list(layer.padding), list(layer.stride), list(layer.dilation), layer.groups)
    packed = torch.ops.mkldnn._reorder_convolution_weight(layer.weight, *settings, None)
    after: tuple[Any, ...] = ("relu" if layer.relu else "none", [], "")
    run = torch.ops.mkldnn._convolution_pointwise.default
    return lambda x: run(x, packed, layer.bias, *settings, *after)  # type: ignore[no-any-return]
