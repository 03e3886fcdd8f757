"""Puts gates on a pretrained transformer, with defaults that suit trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

from sparsegate.gates import Draw, Graded, Select, Start, gate

AnyModel = TypeVar("AnyModel", bound=nn.Module)


def gate_pretrained(
    model: AnyModel,
    *,
    select: Select | None = None,
    start: Start | Mapping[str, Start] | None = None,
    draw: Draw | None = None,
) -> AnyModel:
    """Puts gates on the layers inside a pretrained transformer, in place, and returns the model.

    The defaults differ from those of `sparsegate.gate` in two ways:

    - Embeddings and heads get no gates. A row of an embedding is trained by the few examples that
      have its token, so its gates learn too little. A head is new, small, and the last layer: to
      prune it saves little and costs much.
    - Gates start open, and lower where the weight is small within its layer (`Graded`). A target
      then closes the small weights of every layer first, and no layer closes before another.

    Args:
        model: A model of transformers.
        select: Which weights get gates, instead of those inside the transformer. `Select()`
            asks for embeddings and heads, too.
        start: The gates' first values; `Graded()` unless given.
        draw: How masks come from gates; `Threshold()` unless given.

    Returns:
        The model, as from `sparsegate.gate`.
    """
    chosen = select or Select(skip=outer_weights(model))
    return gate(model, draw=draw, start=start or Graded(), select=chosen)


def outer_weights(model: nn.Module) -> tuple[str, ...]:
    """The names of all weights in embeddings and heads."""
    inner = getattr(model, "base_model", model)
    within = {id(module) for module in inner.modules()}
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return tuple(
        f"{path}.*" if path else "*"
        for path, module in model.named_modules()
        if _is_leaf(module)
        and (id(module) not in within or module is output or isinstance(module, nn.Embedding))
    )


def _is_leaf(module: nn.Module) -> bool:
    return not any(True for _ in module.children())
