"""Captures one step of a model of transformers that generates text with a cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.graph import Graph

from .planned import captured

NAME = "sparsegate"
"""The name of our attention in transformers' table of implementations."""
HARMLESS = frozenset({"is_causal", "position_ids", "cache_position", "use_cache"})
"""Settings of an attention that do not change what a single token sees."""
SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor keys, Tensor values, Tensor state, int layer, "
    "float scale) -> Tensor"
)


@torch.library.custom_op("sparsegate::attend_cached", mutates_args=(), schema=SCHEMA)
def attend_cached(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    state: Tensor,
    layer: int,
    scale: float,
) -> Tensor:
    """Attention of one token to a layer's cache and to itself.

    `keys` is [layers, batch, heads, features, room] and `values` [layers, batch, heads, room,
    features]; of the room, `state[0]` tokens count. The engine's operation adds k and v to them.
    """
    past = int(state[0])
    seen = torch.cat([keys[layer, ..., :past].mT, k], 2)
    shown = torch.cat([values[layer, :, :, :past], v], 2)
    return F.scaled_dot_product_attention(q, seen, shown, scale=scale, enable_gqa=True)


@attend_cached.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:  # noqa: ARG001
    return q.new_empty((*q.shape[:3], v.shape[3]))


@dataclass
class Caught:
    """What the layers of a model read from and hand to their cache while it is captured."""

    keys: Tensor
    values: Tensor
    state: Tensor
    new: tuple[Any, Any, int] | None = None
    """Key, value and number of the layer that was the last to hand its token to the cache."""


_CAUGHT: ContextVar[Caught] = ContextVar("caught")


def _attend(
    module: nn.Module,  # noqa: ARG001
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention that transformers' models call while they are captured."""
    caught = _CAUGHT.get()
    strange = [
        name
        for name, given in others.items()
        if name not in HARMLESS and given is not None and given is not False
    ]
    if attention_mask is not None or dropout or strange:
        raise ValueError(f"attention with {', '.join(strange) or 'a mask or dropout'}")
    if caught.new is None or key is not caught.new[0] or value is not caught.new[1]:
        raise ValueError("attention to other tokens than those of the cache")
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    out: Tensor = attend_cached(
        query, key, value, caught.keys, caught.values, caught.state, caught.new[2], scale
    )
    return out.transpose(1, 2), None


class Step(nn.Module):
    """One token of every text, with a cache: the model's outputs without the cache."""

    def __init__(self, model: nn.Module, fixed: Mapping[str, Any], layers: int, past: int) -> None:
        super().__init__()
        self.model, self.fixed = model, dict(fixed)
        self.layers, self.past = layers, past

    def forward(self, given: dict[str, Tensor], keys: Tensor, values: Tensor, state: Tensor) -> Any:
        """Returns the model's outputs."""
        from transformers.utils import ModelOutput

        caught = Caught(keys, values, state)
        token = _CAUGHT.set(caught)
        try:
            cache = _cache(self.layers, self.past, caught)
            out = self.model(**given, **self.fixed, past_key_values=cache)
        finally:
            _CAUGHT.reset(token)
        if not isinstance(out, ModelOutput):
            raise TypeError("the model returns a tuple")
        return with_cache(out, None)


def with_cache(out: Any, cache: Any) -> Any:
    """The same outputs with another cache."""
    return type(out)(**{**out, "past_key_values": cache})


def _cache(layers: int, past: int, caught: Caught) -> Any:
    """A cache that says how long it is, and notes what it is given."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class Noting(DynamicLayer):  # type: ignore[misc]
        def __init__(self, index: int) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.index, self.is_initialized = index, True

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
            caught.new = key_states, value_states, self.index
            return key_states, value_states

        def get_seq_length(self) -> int:
            return past

    made = DynamicCache()
    made.layers = [Noting(index) for index in range(layers)]
    return made


def captured_step(step: Step, example: dict[str, Any]) -> Graph:
    """The graph of a step.

    Raises:
        ValueError: the model cannot be captured, or attends in a way that the engine does not have.

    """
    with _our_attention(step.model):
        return captured(step, example)


@contextlib.contextmanager
def _our_attention(model: nn.Module) -> Iterator[None]:
    """Lets the model's layers call our attention."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    configs = {id(one): one for one in (getattr(m, "config", None) for m in model.modules()) if one}
    before = [(one, one._attn_implementation) for one in configs.values()]
    try:
        for one in configs.values():
            one._attn_implementation = NAME
        yield
    finally:
        for one, name in before:
            one._attn_implementation = name
