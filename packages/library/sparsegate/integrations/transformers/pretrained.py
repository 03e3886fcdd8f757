"""Puts gates on a pretrained transformer, with defaults that suit trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from sparsegate.gates import OPEN_ABOVE, Draw, Graded, Select, Start, Threshold, gate, gates
from sparsegate.target import Target

AnyModel = TypeVar("AnyModel", bound=nn.Module)
TRAVEL = 0.001  # far less than `listen` has by itself; the unit may be a tenth of what it should be


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
      then closes the small weights of every layer first. One with `listen`, which `SparseTrainer`
      asks for, replaces this order by that of the loss before the first gate closes.

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


@torch.no_grad()
def pretrained_target(target: Target, model: nn.Module) -> Target:
    """The target with `listen` and little travel, unless it says how gates move.

    The default of `Target` suits training from scratch: gates go by the sizes of weights, and move
    far. A pretrained transformer can end at chance with it. Gates that follow the loss keep more.

    They hardly travel besides. The unit of travel is the gates' mean gradient in the dense phase,
    when a new head is still small and passes little gradient to the layers below. Later gradients
    are many times larger, and gates would move as many times as far as asked.

    Args:
        target: What training should end on; `travel`, `grade`, `listen`, `price` or `path` say how
            gates move.
        model: The gated model. If some of its gates are closed or drawn at random, the target does
            not change, and these gates keep their values.
    """
    given = (target.travel, target.grade, target.price, target.path)
    if not target or target.listen or any(each is not None for each in given):
        return target
    all_open = all(
        isinstance(each.draw, Threshold) and bool((each.gate > OPEN_ABOVE).all())
        for each in gates(model).values()
    )
    return replace(target, listen=True, travel=TRAVEL) if all_open else target


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
