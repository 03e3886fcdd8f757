"""Multi-head attention whose projections are sparse."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kept import Kept
from .linear import SparseLinear, multiply
from .sparse_module import SparseModule, checked


class SparseAttention(SparseModule):
    """Computes a `MultiheadAttention` with sparse projections.

    If query, key and value are the same input, one product computes all three projections.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.ones(1, 3, 8)
    >>> torch.allclose(SparseAttention.of(attention)(x, x, x)[0], attention(x, x, x)[0], atol=1e-6)
    True
    """

    _qkv_same_embed_dim = True
    in_proj_bias: Tensor | None

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = attention.embed_dim, attention.num_heads
        self.head_dim, self.batch_first = attention.head_dim, attention.batch_first
        self.dropout = 0.0
        self.__dict__["_parts"] = None, {}
        assert attention.in_proj_weight is not None
        self.hold("in_proj_weight", Kept.of(attention.in_proj_weight))
        bias = attention.in_proj_bias
        self.hold_bias(bias, "in_proj_bias")
        self.out_proj = SparseLinear.of(attention.out_proj)

    @classmethod
    def of(cls, attention: nn.MultiheadAttention) -> SparseAttention:
        """Makes the sparse form of an attention layer."""
        return cls(attention)

    @property
    def in_proj_weight(self) -> Tensor:
        """The dense weight of the three projections; its values are computed at every read."""
        return self.deferred("in_proj_weight")

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the attention's output and, if asked for, its weights."""
        del is_causal  # only a hint; the mask says the same
        batched = query.ndim == 3
        same = query is key and key is value
        first: tuple[Tensor, ...] = (query,) if same else (query, key, value)
        if not torch.compiler.is_compiling():
            first = tuple(checked(x, x.shape[-1], self.embed_dim) for x in first)
        if not batched:
            first = tuple(x[None] for x in first)
        elif not self.batch_first:
            first = tuple(x.transpose(0, 1) for x in first)
        q, k, v = (self._heads(x) for x in self._project(first))
        mask = _mask(attn_mask, key_padding_mask, q, batched=batched)
        weights = None
        if need_weights:
            scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
            weights = torch.softmax(scores if mask is None else scores + mask, -1)
            out = weights @ v
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights[0]
        if not batched:
            return out[0], weights
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _project(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Projects query, key and value; equal inputs share a product."""
        kept, bias = self.kept("in_proj_weight"), self.in_proj_bias
        if len(inputs) == 1:
            return multiply(inputs[0], kept, bias).chunk(3, -1)
        query, key, value = inputs
        if torch.compiler.is_compiling():  # rows of a weight cannot be selected then
            every = [multiply(x, kept, bias).chunk(3, -1) for x in inputs]
            return tuple(each[index] for index, each in enumerate(every))
        if key is value:
            both = multiply(key, *self._part(1, 3)).chunk(2, -1)
            return multiply(query, *self._part(0, 1)), *both
        return tuple(multiply(x, *self._part(i, i + 1)) for i, x in enumerate(inputs))

    def _part(self, first: int, end: int) -> tuple[Kept, Tensor | None]:
        """Some of the three projections, made once and kept as long as the weight's values."""
        kept, bias = self.kept("in_proj_weight"), self.in_proj_bias
        value, parts = self.__dict__["_parts"]
        if value is not kept.value:  # at the first call, or after weights were loaded
            parts = {}
            self.__dict__["_parts"] = kept.value, parts
        if (first, end) not in parts:
            parts[first, end] = _rows(kept, bias, first * self.embed_dim, end * self.embed_dim)
        found: tuple[Kept, Tensor | None] = parts[first, end]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_parts": (None, {})}

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("in_proj_weight").sparsity
        return f"{self.embed_dim}, num_heads={self.num_heads}, {zeros:.1%} zeros{self.note}"


def fits_attention(module: nn.Module) -> bool:
    """Whether the kernels can run a module: equal widths, and nothing appended to keys."""
    return (
        type(module) is nn.MultiheadAttention
        and module.in_proj_weight is not None
        and module.bias_k is None
        and not module.add_zero_attn
    )


def _rows(kept: Kept, bias: Tensor | None, first: int, end: int) -> tuple[Kept, Tensor | None]:
    """These rows of a matrix and its bias."""
    start = kept.start[first : end + 1]
    low, high = int(start[0]), int(start[-1])
    value = kept.value[low:high].clone()  # packed weights are found by the address of the values
    part = Kept(start - start[0], kept.column[low:high], value, (end - first, kept.shape[1]))
    return part, None if bias is None else bias[first:end].clone()


def _mask(attn: Tensor | None, padding: Tensor | None, q: Tensor, *, batched: bool) -> Any:
    """Combines both masks into one that is added to the scores."""
    if attn is not None:
        attn = _added(attn, q)
        attn = attn.view(len(q), -1, *attn.shape[-2:]) if attn.ndim == 3 else attn
    if padding is None:
        return attn
    padding = _added(padding if batched else padding[None], q)[:, None, None, :]
    return padding if attn is None else attn + padding


def _added(mask: Tensor, q: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(q.dtype)
    return torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, float("-inf"))
