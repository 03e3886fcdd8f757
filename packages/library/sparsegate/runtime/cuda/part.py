"""Runs one layer of a captured model on CUDA, by the Triton kernels."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from torch import Tensor, nn

from sparsegate.graph import Linear
from sparsegate.triton_call import MISSING

from ..sparsable import Piece, padding_of
from .conv import PackedConv2d, pack_conv
from .linear import PackedLinear, pack
from .words import DTYPES


class TritonPart(nn.Module):
    """A layer that Triton multiplies, with bias and ReLU; torch does the pooling after it."""

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self.names = [piece.name]
        self.packed = _packed(piece)
        self.after = piece.pooled

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output of the layer and of what follows it."""
        return self.after(self.packed(x))

    def __deepcopy__(self, memo: dict[int, Any]) -> TritonPart:
        return self  # never changed, so it can be shared


def why_not(weight: Tensor) -> str:
    """Why Triton's kernels cannot run a layer with these weights; empty if they can."""
    if weight.device.type != "cuda":
        return (
            f"Triton's kernels run on CUDA, got weights on {weight.device}; move the model and the "
            "example there"
        )
    if find_spec("triton") is None:
        return MISSING
    if weight.dtype not in DTYPES:
        return (
            f"Triton's kernels take {', '.join(map(str, DTYPES))}, got {weight.dtype}; convert the "
            "model first"
        )
    return ""


def _packed(piece: Piece) -> PackedLinear | PackedConv2d:
    layer = piece.node
    weight, bias = piece.folded()
    if isinstance(layer, Linear):
        return pack(weight, bias, relu=piece.relu)
    look: Any = {
        "stride": layer.stride,
        "padding": padding_of(layer),
        "dilation": layer.dilation,
        "groups": layer.groups,
    }
    return pack_conv(weight, bias, relu=piece.relu, **look)
