"""Shrinking: a smaller dense model without the dead units of a sparse one."""

from __future__ import annotations

import warnings
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from .capture import Example, capture
from .constants import read_features
from .deadpaths import is_same, outputs, removed_from
from .node import Constant
from .order import by_unit
from .own_copy import copied
from .units import Follow, Units, layer_name

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@torch.no_grad()
def shrink(model: AnyModule, example: Example) -> AnyModule:
    """A copy without dead units: ordinary layers with fewer features and channels.

    >>> model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    >>> _ = model[2].weight.data[:, 3:].zero_()  # only three units are read
    >>> shrink(model, torch.zeros(1, 4))
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )

    Args:
        model: a model that torch.export can capture; it is left as it was.
        example: a batch of its inputs.

    Returns:
        A model of the same class that computes the same in eval.

    Units are features, channels and heads of attention. Channels that are added to others, as in
    residual blocks, are cut where all of them are dead. Every layer keeps at least one unit. The
    copy runs the model's own forward, which must not name the widths of its layers; where it names
    those of some, they keep their units, and a warning says so.

    """
    ready = copied(model)
    graph = capture(ready, example)
    removed_from(graph, example)
    every = [(units, _kept(units)) for units in Follow(graph).units]
    cuts = [(units, keep) for units, keep in every if not keep.all()]
    smaller = copied(ready)
    for units, keep in cuts:
        _cut_(smaller, units, keep)
    if _problem(model, smaller, example):
        smaller = _with_what_fits(model, ready, cuts, example)
    return smaller


Cut: TypeAlias = tuple[Units, Tensor]
"""Units, and which of them stay."""


def _with_what_fits(
    model: AnyModule, ready: AnyModule, cuts: list[Cut], example: Example
) -> AnyModule:
    """A copy without the dead units that the forward can do without."""
    smaller, left, todo, problem = ready, [], [cuts], ""
    while todo:
        some = todo.pop()
        trial = copied(smaller)
        for units, keep in some:
            _cut_(trial, units, keep)
        if found := _problem(model, trial, example):
            problem = problem or found
            middle = len(some) // 2
            todo += [some[middle:], some[:middle]] if middle else []
            left += [] if middle else some
        else:
            smaller = trial
    if len(left) == len(cuts):
        raise ValueError(_cannot_shrink(model, problem))
    names = [layer_name(layer) for units, _ in left for layer in units.makers]
    warnings.warn(
        f"{', '.join(names)} keep their dead units: {_cannot_shrink(model, problem)}", stacklevel=3
    )
    return smaller


def _kept(units: Units) -> Tensor:
    read = [read_features(layer).view(units.count, -1).any(1) for layer in units.readers]
    keep = torch.stack(read).any(0)
    return keep if keep.any() else torch.arange(len(keep), device=keep.device) == 0


def _cut_(model: nn.Module, units: Units, keep: Tensor) -> None:
    """Takes the other units out of all that computes, normalizes and reads them, in place."""
    for constant in by_unit(units):
        _cut_tensor_(model, constant, keep)
    for layer in units.readers:
        _cut_tensor_(model, layer.weight, keep, axis=1)
    for layer in units.makers:
        rows = len(_tensor(model, layer.weight))
        _set_width_(model, layer.weight, ("out_features", "out_channels"), rows)
    for layer in units.depthwise:
        rows = len(_tensor(model, layer.weight))
        _set_width_(model, layer.weight, ("in_channels", "out_channels", "groups"), rows)
    for norm in units.norms:
        _set_width_(model, norm.mean, ("num_features",), len(_tensor(model, norm.mean)))
    for layer in units.readers:
        columns = _tensor(model, layer.weight).shape[1]
        _set_width_(model, layer.weight, ("in_features", "in_channels"), columns)


def _tensor(model: nn.Module, constant: Constant) -> Tensor:
    """The parameter or buffer of this name; the graph may be that of another copy."""
    owner, _, key = constant.name.rpartition(".")
    found: Tensor = getattr(model.get_submodule(owner), key)
    return found


def _cut_tensor_(model: nn.Module, constant: Constant, keep: Tensor, *, axis: int = 0) -> None:
    owner, _, key = constant.name.rpartition(".")
    tensor = _tensor(model, constant)
    features = keep.repeat_interleave(tensor.shape[axis] // len(keep)).nonzero().flatten()
    kept = tensor.detach().index_select(axis, features)
    if isinstance(tensor, nn.Parameter):
        kept = nn.Parameter(kept, requires_grad=tensor.requires_grad)
    setattr(model.get_submodule(owner), key, kept)


def _set_width_(
    model: nn.Module, constant: Constant, attributes: tuple[str, ...], width: int
) -> None:
    module = model.get_submodule(constant.name.rpartition(".")[0])
    for attribute in attributes:
        if hasattr(module, attribute):
            setattr(module, attribute, width)


def _problem(model: nn.Module, smaller: nn.Module, example: Example) -> str:
    """What is wrong with a smaller model; empty if nothing is."""
    wanted = outputs(model, example)
    try:
        found = outputs(smaller, example)
    except Exception as error:
        return f"fails with fewer units ({error})"
    return "" if is_same(found, wanted) else "computes something else with fewer units"


def _cannot_shrink(model: nn.Module, problem: str) -> str:
    return (
        f"the forward of {type(model).__name__} {problem}; it must not name the widths of its "
        "layers: write flatten(1) rather than view(-1, 800), or use remove_dead_paths, which keeps "
        "all shapes"
    )
