"""Multi-head attention whose projections are sparse."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kept import Kept
from .linear import SparseLinear, multiply
from .sparse_module import SparseModule, check_input


class SparseAttention(SparseModule):
    """Computes a `MultiheadAttention` with sparse projections; query, key and value in one product where they are one input.

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
        assert attention.in_proj_weight is not None
        self.hold("in_proj_weight", Kept.of(attention.in_proj_weight))
        bias = attention.in_proj_bias
        self.register_buffer("in_proj_bias", None if bias is None else bias.detach().clone())
        self.out_proj = SparseLinear.of(attention.out_proj)

    @classmethod
    def of(cls, attention: nn.MultiheadAttention) -> SparseAttention:
        """The sparse form of an attention layer."""
        return cls(attention)

    @property
    def in_proj_weight(self) -> Tensor:
        """The dense weight of the three projections, made anew at every access."""
        return self.dense_of("in_proj_weight")

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
        """The attention's output and, if wanted, its weights, as the ordinary layer gives them."""
        del is_causal  # a hint that the mask says, too
        check_input(query, query.shape[-1], self.embed_dim)
        batched = query.ndim == 3
        same = query is key and key is value
        first: tuple[Tensor, ...] = (query,) if same else (query, key, value)
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
        kept = self.kept("in_proj_weight")
        every = [multiply(x, kept, self.in_proj_bias).chunk(3, -1) for x in inputs]
        # For different inputs all three projections of each are computed, and one is taken.
        return every[0] if len(every) == 1 else tuple(every[index][index] for index in range(3))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("in_proj_weight").sparsity
        return f"{self.embed_dim}, num_heads={self.num_heads}, {zeros:.1%} zeros{self.note}"


def fits_attention(module: nn.Module) -> bool:
    """Whether the kernels can run a module: one width for query, key and value, nothing added to keys."""
    return (
        type(module) is nn.MultiheadAttention
        and module.in_proj_weight is not None
        and module.bias_k is None
        and not module.add_zero_attn
    )


def _mask(attn: Tensor | None, padding: Tensor | None, q: Tensor, *, batched: bool) -> Any:
    """Both masks as one that is added to the scores."""
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
