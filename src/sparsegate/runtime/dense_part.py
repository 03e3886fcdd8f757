"""Dense convolutions by kernels that are often faster than torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.kernels import KERNELS

from .matrix import LANES
from .pieces import Piece, padding_of
from .winograd import Winograd, fits_winograd

DENSE_KERNELS = ("packed", "winograd")
"""oneDNN with weights that are laid out beforehand and the rectifier inside; our own, with fewer multiplications."""


NEAR = 26 * 1024 * 1024
"""Bytes between two layers: so few images go through all of them that the same memory serves again and again."""


class DensePart(nn.Module):
    """Consecutive convolutions with what follows each; images are passed on with their channels last."""

    def __init__(self, pieces: Sequence[Piece], kernels: Sequence[str]) -> None:
        super().__init__()
        self.names, self.in_shape = [piece.name for piece in pieces], pieces[0].shapes["in"]
        self._steps = [step for pair in zip(pieces, kernels, strict=True) for step in _steps(*pair)]
        largest = max(prod((len(layer.weight), *layer.conv_shape)) for layer in (each.layer() for each in pieces))
        few = max(1, NEAR // (4 * largest))
        self.together = few if few < LANES else few // LANES * LANES  # which makes good mosaics

    def forward(self, x: Tensor) -> Tensor:
        """The part's output for any number of inputs of the shape that it was made for."""
        if x.shape[1:] != self.in_shape or x.dtype is not torch.float32 or not x.is_cpu:
            raise ValueError(
                f"made for float32 inputs of shape {self.in_shape} on the CPU, got {x.dtype} of shape "
                f"{tuple(x.shape[1:])} on {x.device}; convert the input, or call sg.sparse again for the other kind"
            )
        if len(x) <= self.together:
            return self._through(x)
        first, *others = torch.split(x, self.together)
        found = self._through(first)
        out = torch.empty((len(x), *found.shape[1:]), memory_format=_layout(found))
        out[: self.together] = found
        for number, few in enumerate(others, 1):
            out[number * self.together :][: len(few)] = self._through(few)
        return out

    def _through(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        for step in self._steps:
            x = step(x)
        return x

    def __deepcopy__(self, memo: dict[int, Any]) -> DensePart:
        return self  # never changed, so it can be shared

    def extra_repr(self) -> str:
        """The layers, for `print`."""
        return " -> ".join(self.names)


def dense_part(pieces: Sequence[Piece], kernels: Sequence[str]) -> DensePart:
    """What runs consecutive convolutions, each by its kernel."""
    for piece, kernel in zip(pieces, kernels, strict=True):
        if kernel not in dense_kernels_for(piece):
            able = " or ".join(["dense", *dense_kernels_for(piece)])
            raise ValueError(f"{piece.name} can run here by {able}, got {kernel!r}; measure again with sg.sparse")
    with torch.no_grad():
        return DensePart(pieces, kernels)


def dense_kernels_for(piece: Piece) -> list[str]:
    """Those that can run a piece where it is."""
    weight = piece.module.weight
    if not isinstance(piece.module, nn.Conv2d) or not weight.is_cpu or weight.dtype is not torch.float32:
        return []
    return ["packed"] * has_packing() + ["winograd"] * (KERNELS is not None and fits_winograd(piece.layer()))


@cache
def has_packing() -> bool:
    """Whether this torch can pack: it does so for its compiler, by operators that it does not promise to keep."""
    try:
        conv, x = nn.Conv2d(1, 1, 1).requires_grad_(False), torch.ones(1, 1, 2, 2)
        return torch.allclose(_onednn(conv, relu=False)(x), conv(x))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False


def _steps(piece: Piece, kernel: str) -> list[Callable[[Tensor], Tensor]]:
    """The kernel, and what it does not do itself: any pool but one of two by two places by Winograd's, a new shape."""
    layer, out_shape = piece.layer(), piece.shapes["out"]
    if kernel == "packed":
        assert isinstance(piece.module, nn.Conv2d)
        return [_onednn(piece.module, relu=piece.relu), piece.pooled]
    if (layer.pool, layer.pool_stride) == (2, 2):
        return [Winograd(layer), lambda x: x.reshape(len(x), *out_shape)]
    return [Winograd(replace(layer, pool=1, pool_stride=1)), piece.pooled]


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.ndim == 4 else torch.contiguous_format


def _onednn(conv: nn.Conv2d, *, relu: bool) -> Callable[[Tensor], Tensor]:
    weight, bias = conv.weight.detach(), None if conv.bias is None else conv.bias.detach()
    settings = (list(padding_of(conv) or ()), list(conv.stride), list(conv.dilation), conv.groups)
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, *settings, None)
    after: tuple[Any, ...] = ("relu" if relu else "none", [], "")
    run = torch.ops.mkldnn._convolution_pointwise.default
    return lambda x: run(x, packed, bias, *settings, *after)  # type: ignore[no-any-return]
