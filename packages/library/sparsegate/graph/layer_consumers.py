"""The fully connected layers that read what another one computes."""

from __future__ import annotations

import torch
from torch import nn

from .chain import find_chains
from .deadpaths import evaluating


def linear_readers(model: nn.Module, name: str) -> list[nn.Linear]:
    """Those that read the units of a named layer, one input for each, with nothing but activations between.

    The model says in `image_shape` what it takes. Raises if anything else reads them, or a norm stands between.
    """
    shape = getattr(model, "image_shape", None)
    if shape is None:
        raise ValueError(
            f"{type(model).__name__} must say in image_shape what it takes, such as (1, 28, 28)"
        )
    layer = model.get_submodule(name)
    example = torch.zeros(1, *shape, device=next(model.parameters()).device)
    with evaluating(model), torch.no_grad():
        chains, left = find_chains(model, example)
    found = [chain for chain in chains if chain.layer is layer]
    if not found:
        raise ValueError(
            f"the number of outputs of {name} cannot change: they meet {left.get(name, 'nothing')}"
        )
    readers = [each.layer for each in found[0].readers]
    linears = [
        each
        for each in readers
        if isinstance(each, nn.Linear) and each.in_features == len(layer.weight)  # type: ignore[arg-type]
    ]
    if found[0].norms or len(linears) != len(readers):
        raise ValueError(
            f"the number of outputs of {name} cannot change: a norm or another kind of layer reads them"
        )
    return linears
