"""Finds fully connected layers by name, and replaces modules."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn


def linears(model: nn.Module, only: tuple[str, ...]) -> dict[str, nn.Linear]:
    """The plain fully connected layers whose weight's name fits one of the patterns, by name.

    >>> linears(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4)), ("1.*",))
    {'1': Linear(in_features=3, out_features=4, bias=True)}
    """
    every = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    chosen = {
        name: each
        for name, each in every.items()
        if any(fnmatchcase(f"{name}.weight", one) for one in only)
    }
    if not every:
        raise ValueError(
            f"{type(model).__name__} has no plain fully connected layer (nn.Linear) to replace"
        )
    if not chosen:
        there = ", ".join(f"{name}.weight" for name in every)
        raise ValueError(
            f"no fully connected layer matches only={list(only)}; the model's are {there}"
        )
    for name, each in chosen.items():
        _check_own(model, name, each)
    return chosen


def replace_(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Replaces a module wherever the model uses it, in place."""
    names = [name for name, module in model.named_modules(remove_duplicate=False) if module is old]
    for name in names:
        model.set_submodule(name, new)


def _check_own(model: nn.Module, name: str, layer: nn.Linear) -> None:
    if not name:
        raise ValueError(
            "the model is a single nn.Linear; put it into an nn.Sequential to replace it"
        )
    users = [
        each for each in model.modules() if layer.weight in set(each.parameters(recurse=False))
    ]
    if len(users) > 1:
        raise ValueError(
            f"{name}.weight is tied to another layer's weight; a tied layer cannot be replaced"
        )
