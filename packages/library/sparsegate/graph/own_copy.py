"""Copies models, for callers that change or pack them."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def copied(model: AnyModule) -> AnyModule:
    """Returns a copy with its own weights; raises ValueError if the model cannot be copied.

    >>> model = nn.Linear(2, 1)
    >>> copied(model).weight is model.weight
    False
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is an nn.Module, got {type(model).__name__}; wrap it in one")
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "expected an ordinary model, got one from torch.compile; pass its attribute _orig_mod"
        )
    computed = [f"{name}.{key}" for name, each in model.named_modules() for key in _computed(each)]
    if computed:
        raise ValueError(
            f"the model cannot be copied: {', '.join(computed)} is computed from other tensors; "
            "make it an ordinary one first, by torch.nn.utils.prune.remove or remove_weight_norm, "
            "or set it to None"
        )
    return copy.deepcopy(model)


def _computed(module: nn.Module) -> list[str]:
    """Names of computed tensors that torch cannot copy; torch.nn.utils adds such."""
    return [
        key for key, value in vars(module).items() if getattr(value, "grad_fn", None) is not None
    ]
