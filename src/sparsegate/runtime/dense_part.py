"""Dense convolutions by kernels that are often faster than torch's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.kernels import KERNELS

from .pieces import Piece, padding_of
from .winograd import Winograd, fits_winograd

DENSE_KERNELS = ("packed", "winograd")
"""oneDNN with weights that are laid out beforehand and the rectifier inside; our own, with fewer multiplications."""


class DensePart(nn.Module):
    """One convolution with what follows it; images are passed on with their channels last."""

    def __init__(self, piece: Piece, kernel: str) -> None:
        super().__init__()
        self.names, self.in_shape = [piece.name], piece.shapes["in"]
        self._run, self._follow = _winograd(piece) if kernel == "winograd" else _packed(piece)

    def forward(self, x: Tensor) -> Tensor:
        """The part's output for any number of inputs of the shape that it was made for."""
        if x.shape[1:] != self.in_shape or x.dtype is not torch.float32 or not x.is_cpu:
            raise ValueError(
                f"made for float32 inputs of shape {self.in_shape} on the CPU, got {x.dtype} of shape "
                f"{tuple(x.shape[1:])} on {x.device}; convert the input, or call sg.sparse again for the other kind"
            )
        return self._follow(self._run(x.contiguous(memory_format=torch.channels_last)))

    def __deepcopy__(self, memo: dict[int, Any]) -> DensePart:
        return self  # never changed, so it can be shared


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


_Ways = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]


def _packed(piece: Piece) -> _Ways:
    assert isinstance(piece.module, nn.Conv2d)
    return _onednn(piece.module, relu=piece.relu), piece.pooled


def _winograd(piece: Piece) -> _Ways:
    """Pools of two by two are the kernel's, others come after it."""
    layer, out_shape = piece.layer(), piece.shapes["out"]
    if (layer.pool, layer.pool_stride) == (2, 2):
        return Winograd(layer), lambda x: x.reshape(len(x), *out_shape)
    return Winograd(replace(layer, pool=1, pool_stride=1)), piece.pooled


def _onednn(conv: nn.Conv2d, *, relu: bool) -> Callable[[Tensor], Tensor]:
    weight, bias = conv.weight.detach(), None if conv.bias is None else conv.bias.detach()
    settings = (list(padding_of(conv) or ()), list(conv.stride), list(conv.dilation), conv.groups)
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, *settings, None)
    after = ("relu" if relu else "none", [], "")
    run = torch.ops.mkldnn._convolution_pointwise.default
    return lambda x: run(x, packed, bias, *settings, *after)  # type: ignore[no-any-return]
