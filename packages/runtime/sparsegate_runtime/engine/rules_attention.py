"""Lowers products of activations, and attention with a cache or without."""

from __future__ import annotations

from math import prod
from typing import Any

from . import network as n
from . import structures as c
from .planner import Planner, UnplannedError
from .structures import Kind
from .tensor import Tensor


class CachedAttention(c.Structure):
    """`CachedAttention` of engine.h."""

    _fields_ = (
        *((name, c.LONG) for name in ("images", "heads", "kv_heads", "features")),
        *((name, c.LONG) for name in ("value_features", "layer")),
        *((name, c.View) for name in ("q", "k", "v", "out")),
        *((name, c.LONG) for name in ("keys", "values", "state")),
        *(("scale", c.FLOAT), ("unused", c.INT)),
    )

    @property
    def scratch(self) -> int:
        """Floats of scratch memory for one thread: scores, a query, and sums of values."""
        return 128 + 2 * 64 + int(self.features) + int(self.value_features)


def product(planner: Planner, node: n.Product) -> Tensor:
    """A matrix product of two activations."""
    a, b = (planner.values[read] for read in node.inputs)
    leading = node.shape[:-2]
    if len(leading) > 3:
        raise UnplannedError(f"a matrix product over {len(leading)} leading dimensions")
    rows, columns, inner = *node.shape[-2:], a.shape[-1]
    a = a.expand((*leading, rows, inner))
    if b.strides[-1] != 1 or b.buffer.slot:
        b = planner.copy(b, planner.new(b.shape, range(len(b.shape))))
    b = b.expand((*leading, inner, columns))
    out = planner.new(node.shape, range(len(node.shape)))
    missing = 3 - len(leading)

    def view(one: Tensor) -> c.View:
        made = one.view()
        made.stride = c.DIMS(*[0] * missing, *one.strides)
        return made

    def make() -> c.Structure:
        batch = (c.LONG * 3)(*[1] * missing, *leading)
        return c.MatrixMultiply(batch, rows, inner, columns, view(a), view(b), view(out), 1.0)

    work = 2.0 * prod(node.shape) * inner
    planner.emit(Kind.MATRIX_MULTIPLY, make, [a, b], out, work=work)
    return out


def attention(planner: Planner, node: n.Attention) -> Tensor:
    """Attention with its tokens next to each other."""
    q, k, v = (_tokens(planner, planner.values[read]) for read in node.inputs[:3])
    masked = len(node.inputs) > 3
    mask = planner.values[node.inputs[3]] if masked else None
    images, heads, queries, features = q.shape
    keys, value_features = k.shape[2], v.shape[3]
    by_feature = planner.allocate((images, queries, heads * value_features), 2)
    split = by_feature.reshape((images, queries, heads, value_features))
    assert split is not None
    out = split.permute((0, 2, 1, 3))
    if mask is not None:
        mask = mask.expand((images, heads, queries, keys))

    def view(one: Tensor) -> c.View:
        made = one.view()
        made.stride = c.DIMS(one.strides[0], one.strides[1], one.strides[3])
        return made

    def make() -> c.Structure:
        kind = 0 if mask is None else 2 if mask.buffer.kind == "bool" else 1
        return c.Attention(
            images, heads, k.shape[1], queries, keys, features, value_features,
            view(q), view(k), view(v), view(out),
            c.View(-1) if mask is None else mask.view(),
            kind, int(node.causal), node.scale,
        )  # fmt: skip

    reads = [q, k, v] if mask is None else [q, k, v, mask]
    scratch = c.Attention(features=features, value_features=value_features).scratch
    work = 2.0 * images * heads * queries * keys * (features + value_features)
    planner.emit(Kind.ATTENTION, make, reads, out, scratch=scratch, work=work)
    return out


def cached_attention(planner: Planner, node: n.CachedAttention) -> Tensor:
    """Attention of one token, whose channels are next to each other."""
    q, k, v, keys, values, state = (planner.values[read] for read in node.inputs)
    images, heads, _, features = q.shape
    value_features = v.shape[3]
    by_feature = planner.allocate((images, 1, heads * value_features), 2, tight=True)
    split = by_feature.reshape((images, 1, heads, value_features))
    assert split is not None
    out = split.permute((0, 2, 1, 3))

    def view(one: Tensor) -> c.View:
        made = one.view()
        made.stride = c.DIMS(one.strides[0], one.strides[1], one.strides[3])
        return made

    def make() -> c.Structure:
        return CachedAttention(
            images, heads, k.shape[1], features, value_features, node.layer,
            view(q), view(k), view(v), view(out),
            keys.buffer.slot, values.buffer.slot, state.buffer.slot, node.scale, 0,
        )  # fmt: skip

    scratch = CachedAttention(features=features, value_features=value_features).scratch
    planner.emit(Kind.CACHED_ATTENTION, make, [q, k, v, keys, values, state], out, scratch=scratch)
    return out


def _tokens(planner: Planner, source: Tensor) -> Tensor:
    """The tensor with its tokens next to each other."""
    if source.strides[2] == 1 and source.buffer.slot == 0:
        return source
    images, heads, tokens, features = source.shape
    by_feature = planner.allocate((images, tokens, heads * features), 2)
    split = by_feature.reshape((images, tokens, heads, features))
    assert split is not None
    return planner.copy(source, split.permute((0, 2, 1, 3)))


RULES: dict[type[n.Node], Any] = {
    n.Product: product,
    n.Attention: attention,
    n.CachedAttention: cached_attention,
}
