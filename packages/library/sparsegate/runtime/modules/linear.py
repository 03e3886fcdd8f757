"""A linear layer whose matrix is sparse, on inputs with any leading dimensions."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .kept import Kept, packed
from .sparse_module import SparseModule, checked


class SparseLinear(SparseModule):
    """Computes `x @ weight.T + bias` without the zeros of the weight, in C.

    >>> layer = nn.Linear(4, 2)
    >>> x = torch.ones(3, 5, 4)
    >>> torch.allclose(SparseLinear.of(layer)(x), layer(x), atol=1e-6)
    True

    It takes float32 inputs on the CPU with any leading dimensions. It has no backward pass.
    `torch.compile` and `torch.export` see it as the operator `sparsegate::linear`.
    """

    bias: Tensor | None

    def __init__(self, kept: Kept, bias: Tensor | None, *, transposed: bool = False) -> None:
        super().__init__()
        self.out_features, self.in_features = kept.shape
        self.transposed = transposed
        self.hold("weight", kept, transposed=transposed)
        self.hold_bias(bias)

    @classmethod
    def of(cls, layer: nn.Module) -> SparseLinear:
        """Makes the sparse form of a `Linear` or of transformers' transposed `Conv1D`."""
        weight, bias = layer.weight, layer.bias
        assert isinstance(weight, Tensor)
        assert bias is None or isinstance(bias, Tensor)
        transposed = not isinstance(layer, nn.Linear)
        weight = weight.detach()
        return cls(Kept.of(weight.T if transposed else weight), bias, transposed=transposed)

    @property
    def weight(self) -> Float[Tensor, "..."]:
        """The dense weight; its values are computed at every read."""
        return self.deferred("weight")

    def forward(
        self, x: Float[Tensor, "*batch in_features"]
    ) -> Float[Tensor, "*batch out_features"]:
        """Returns the layer's output."""
        if not torch.compiler.is_compiling():
            x = checked(x, x.shape[-1] if x.ndim else 0, self.in_features)
        return multiply(x, self.kept("weight"), self.bias)

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("weight").sparsity
        return f"{self.in_features}, {self.out_features}, {zeros:.1%} zeros{self.note}"


def multiply(x: Tensor, kept: Kept, bias: Tensor | None) -> Tensor:
    """Computes `x @ weight.T + bias`; compilers see one operator."""
    if torch.compiler.is_compiling():
        made: Tensor = sparse_linear(x, kept.start, kept.column, kept.value, bias, kept.shape[1])
        return made
    return _run(x, kept, bias)


def _run(x: Tensor, kept: Kept, bias: Tensor | None) -> Tensor:
    rows, columns = kept.shape
    tokens = x.reshape(x.shape[:-1].numel(), columns)
    if not len(kept.value) or not tokens.numel():
        base = x.new_zeros(rows) if bias is None else bias
        return base.expand(*x.shape[:-1], rows).contiguous()
    found = packed(kept, bias, (columns, 1, 1))
    if not found.most:
        return F.linear(x, kept.dense(), bias)
    return found(tokens, kept).view(*x.shape[:-1], rows)


SCHEMA = (
    "(Tensor x, Tensor start, Tensor column, Tensor value, Tensor? bias, int in_features) -> Tensor"
)


@torch.library.custom_op("sparsegate::linear", mutates_args=(), schema=SCHEMA)
def sparse_linear(
    x: Tensor, start: Tensor, column: Tensor, value: Tensor, bias: Tensor | None, in_features: int
) -> Tensor:
    """The linear layer as an operator for compilers, with the matrix as rows of kept weights."""
    return _run(x, Kept(start, column, value, (len(start) - 1, in_features)), bias)


@sparse_linear.register_fake
def _(x: Tensor, start: Tensor, *_others: Any) -> Tensor:
    return x.new_empty((*x.shape[:-1], len(start) - 1))
