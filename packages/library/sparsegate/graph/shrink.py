"""Shrinking: a smaller dense model without the dead units of a sparse one."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from .capture import Example, capture
from .deadpaths import is_same, outputs, read_features, removed_from
from .node import Constant
from .order import by_unit
from .own_copy import copied
from .units import Follow, Units

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

    Channels that are added to others, as in residual blocks, are cut where all of them are dead.
    Every layer keeps at least one unit. The copy runs the model's own forward, which must not name
    the widths of its layers.

    """
    smaller = copied(model)
    graph = capture(smaller, example)
    removed_from(graph, example)
    for units in Follow(graph).units:
        _cut_(smaller, units, _kept(units))
    _check_same(model, smaller, example)
    return smaller


def _kept(units: Units) -> Tensor:
    read = [read_features(layer).view(units.count, -1).any(1) for layer in units.readers]
    keep = torch.stack(read).any(0)
    return keep if keep.any() else torch.arange(len(keep), device=keep.device) == 0


def _cut_(model: nn.Module, units: Units, keep: Tensor) -> None:
    """Takes the other units out of all that computes, normalises and reads them, in place."""
    for constant in by_unit(units):
        _cut_tensor_(model, constant, keep)
    for layer in units.readers:
        _cut_tensor_(model, layer.weight, keep, axis=1)
    kept = int(keep.sum())
    for layer in units.makers:
        _set_width_(model, layer.weight, ("out_features", "out_channels"), kept)
    for layer in units.depthwise:
        _set_width_(model, layer.weight, ("in_channels", "out_channels", "groups"), kept)
    for norm in units.norms:
        _set_width_(model, norm.mean, ("num_features",), len(norm.mean.read()))
    for layer in units.readers:
        columns = layer.weight.read().shape[1]
        _set_width_(model, layer.weight, ("in_features", "in_channels"), columns)


def _cut_tensor_(model: nn.Module, constant: Constant, keep: Tensor, *, axis: int = 0) -> None:
    owner, _, key = constant.name.rpartition(".")
    tensor = constant.read()
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


def _check_same(model: nn.Module, smaller: nn.Module, example: Example) -> None:
    wanted = outputs(model, example)
    try:
        found = outputs(smaller, example)
    except Exception as error:
        raise ValueError(_cannot_shrink(model, f"fails with fewer units ({error})")) from error
    if not is_same(found, wanted):
        raise ValueError(_cannot_shrink(model, "computes something else with fewer units"))


def _cannot_shrink(model: nn.Module, problem: str) -> str:
    return (
        f"the forward of {type(model).__name__} {problem}; it must not name the widths of its "
        "layers: write flatten(1) rather than view(-1, 800), or use remove_dead_paths, which keeps "
        "all shapes"
    )
