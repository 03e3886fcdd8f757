"""Finds the fully connected layers that read what another layer computes."""

from __future__ import annotations

import torch
from torch import nn

from .capture import capture
from .node import Linear
from .units import Follow, layer_name


def linear_readers(model: nn.Module, name: str) -> list[nn.Linear]:
    """The layers that read the units of a named layer, one input for each unit.

    Args:
        model: a model with the shape of its input in `image_shape`, such as (1, 28, 28).
        name: the layer whose readers are wanted.

    Raises:
        ValueError: anything else reads the units, or a norm stands between.

    """
    shape = getattr(model, "image_shape", None)
    if shape is None:
        raise ValueError(
            f"expected the input shape in {type(model).__name__}.image_shape, such as (1, 28, 28)"
        )
    follow = Follow(capture(model, torch.zeros(1, *shape, device=next(model.parameters()).device)))
    found = [units for units in follow.units if name in map(layer_name, units.makers)]
    if not found:
        raise ValueError(
            f"the number of outputs of {name} cannot change: they meet "
            f"{follow.left.get(name, 'nothing')}"
        )
    (units,) = found
    width = len(model.get_submodule(name).weight)  # type: ignore[arg-type]
    fits = all(
        isinstance(reader, Linear) and reader.weight.read().shape[1] == width
        for reader in units.readers
    )
    if units.norms or units.depthwise or len(units.makers) > 1 or not fits:
        raise ValueError(
            f"the number of outputs of {name} cannot change: a norm or another kind of layer "
            "reads them"
        )
    return [model.get_submodule(layer_name(reader)) for reader in units.readers]  # type: ignore[misc]
