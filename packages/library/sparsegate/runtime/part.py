"""Parts of a network that do not run by torch: consecutive layers in one call in C, or one by a kernel of its own."""

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
"""A call of compiled code; it answers NotImplemented where the module has to be called in full."""


class ChainPart(nn.Module):
    """Consecutive layers that one call in C runs; nothing is copied between them.

    Inputs of another shape than the first layer's are taken as they lie in memory: they need not be flattened.
    """

    def __init__(self, units: Sequence[Unit], in_shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.names = [piece.name for unit in units for piece in unit.pieces]
        self.chain = Chain([layer for unit in units for layer in unit.layers])
        self.in_shape, self.out_shape = in_shape or units[0].shapes["in"], units[-1].shapes["out"]
        self.is_flat = len(self.out_shape) == 1

    def forward(self, x: Tensor) -> Tensor:
        """The part's output for any number of inputs of the shape that it was made for."""
        if x.shape[1:] != self.in_shape or x.dtype is not torch.float32 or not x.is_cpu:
            raise ValueError(
                f"made for float32 inputs of shape {self.in_shape} on the CPU, got {x.dtype} of shape "
                f"{tuple(x.shape[1:])} on {x.device}; convert the input, or call sg.sparse again for the other kind"
            )
        out = self.chain(x)
        return out if self.is_flat else out.view(len(x), *self.out_shape)

    def direct(self, owner: nn.Module, count: int) -> Direct | None:
        """The shortest way into C for as many inputs, for a module that does nothing else; there may be none."""
        found = self.chain.in_c(count)
        return found and direct(owner, found[0], (self.in_shape, self.out_shape), found[1])

    def __deepcopy__(self, memo: dict[int, Any]) -> ChainPart:
        return self  # never changed, so it can be shared

    def extra_repr(self) -> str:
        """The layers, for `print`."""
        return " -> ".join(self.names)


class CsrPart(nn.Module):
    """One linear layer as a CSR matrix of torch: for where other kernels are missing, and for GPUs."""

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self.names, self.relu = [piece.name], piece.relu
        weight, bias = piece.folded()
        self.matrix = weight.to_sparse_csr()
        self.bias = None if bias is None else bias[:, None]

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output; the matrix stands on the left, which is several times faster on a CPU."""
        out = self.matrix @ x.T
        out = out if self.bias is None else out + self.bias
        return (
            out.relu() if self.relu else out
        ).T.contiguous()  # as torch gives it: somebody may view it

    def __deepcopy__(self, memo: dict[int, Any]) -> CsrPart:
        return self


def kernels_for(piece: Piece) -> list[str]:
    """The sparse kernels that can run a piece where it is, the one to try first."""
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
    """What runs these consecutive units by a kernel: `csr` takes one linear layer, `triton` any one.

    A chain can take inputs of another shape, if they are as many numbers.
    """
    pieces = [piece for unit in units for piece in unit.pieces]
    for piece in pieces:
        able = ["dense", *dense_kernels_for(piece), *kernels_for(piece)]
        if kernel not in able:
            raise ValueError(
                f"{piece.name} can run here by {' or '.join(able)}, got {kernel!r}; measure again with sg.sparse"
                + (f"; {explain_missing()}" if KERNELS is None else "")
            )
    with torch.no_grad():
        if kernel == "chain":
            return ChainPart(units, in_shape)
        if kernel in DENSE_KERNELS:
            return dense_part(pieces, [kernel] * len(pieces))
        return TritonPart(pieces[0]) if kernel == "triton" else CsrPart(pieces[0])
