"""Parts of a network that run without torch: several layers in one C call, or one by a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sparsegate.fast_call import direct
from sparsegate.graph import Linear
from sparsegate_runtime.kernels import KERNELS, explain_missing

from .chain import Chain
from .cuda.part import TritonPart, why_not
from .dense_part import DENSE_KERNELS, dense_kernels_for, dense_part
from .sparsable import Piece, Unit

Direct: TypeAlias = Callable[[Any], Any]
"""A call of compiled code; it returns NotImplemented if the module must be called in full."""


class ChainPart(nn.Module):
    """Consecutive layers that run in one call of C; nothing is copied between them.

    Inputs of any shape with the right number of values are taken in their memory order, so images
    need not be flattened.
    """

    def __init__(self, units: Sequence[Unit], in_shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.names = [piece.name for unit in units for piece in unit.pieces]
        self.chain = Chain([layer for unit in units for layer in unit.layers])
        self.in_shape, self.out_shape = in_shape or units[0].shapes["in"], units[-1].shapes["out"]
        self.is_flat = len(self.out_shape) == 1

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output for any number of inputs of the shape that the part was made for."""
        if x.shape[1:] != self.in_shape or x.dtype is not torch.float32 or not x.is_cpu:
            raise ValueError(
                f"made for float32 inputs of shape {self.in_shape} on the CPU, got {x.dtype} "
                f"of shape {tuple(x.shape[1:])} on {x.device}; convert the input, or call "
                "sg.sparse again for the other kind"
            )
        out = self.chain(x)
        return out if self.is_flat else out.view(len(x), *self.out_shape)

    def direct(self, owner: nn.Module, count: int) -> Direct | None:
        """The fastest call into C for this number of images, if there is one."""
        found = self.chain.in_c(count)
        return found and direct(owner, found[0], (self.in_shape, self.out_shape), found[1])

    def __deepcopy__(self, memo: dict[int, Any]) -> ChainPart:
        return self  # never changed, so it can be shared

    def extra_repr(self) -> str:
        """The layers, for `print`."""
        return " -> ".join(self.names)


class CsrPart(nn.Module):
    """A linear layer as a CSR matrix of torch, for GPUs and for machines without our kernels."""

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self.names, self.relu = [piece.name], piece.relu
        weight, bias = piece.folded()
        self.matrix = weight.to_sparse_csr()
        self.bias = None if bias is None else bias[:, None]

    def forward(self, x: Tensor) -> Tensor:
        """Returns the layer's output. The matrix is on the left: on a CPU, that is much faster."""
        out = self.matrix @ x.T
        out = out if self.bias is None else out + self.bias
        return (
            out.relu() if self.relu else out
        ).T.contiguous()  # in torch's layout: a caller may take a view

    def __deepcopy__(self, memo: dict[int, Any]) -> CsrPart:
        return self


def kernels_for(piece: Piece) -> list[str]:
    """The sparse kernels that can run a layer on its device, the most promising first."""
    weight, csr = piece.weight, ["csr"] if isinstance(piece.node, Linear) else []
    if weight.is_cuda:
        return csr if why_not(weight) else ["triton", *csr]
    if weight.dtype is not torch.float32:
        return []
    chain = (
        ["chain"] if weight.is_cpu and KERNELS is not None and piece.layer().is_within_reach else []
    )
    return chain + csr


def sparse_part(
    units: Sequence[Unit], kernel: str, in_shape: tuple[int, ...] | None = None
) -> nn.Module:
    """Makes the part that runs consecutive units: `csr` and `triton` take one linear layer.

    A chain also takes inputs of another shape with the same number of values.
    """
    pieces = [piece for unit in units for piece in unit.pieces]
    for piece in pieces:
        able = ["dense", *dense_kernels_for(piece), *kernels_for(piece)]
        if kernel not in able:
            raise ValueError(
                f"{piece.name} can run here by {' or '.join(able)}, got {kernel!r}; "
                "measure again with sg.sparse"
                + (f"; {explain_missing()}" if KERNELS is None else "")
            )
    with torch.no_grad():
        if kernel == "chain":
            return ChainPart(units, in_shape)
        if kernel in DENSE_KERNELS:
            return dense_part(pieces, [kernel] * len(pieces))
        return TritonPart(pieces[0]) if kernel == "triton" else CsrPart(pieces[0])
