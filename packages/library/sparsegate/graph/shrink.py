"""Shrinking: a smaller dense model without the dead units of a sparse one."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from .chain import Chain, Example, Layer, find_chains
from .deadpaths import evaluating, is_same, live_units, outputs, remove_dead_paths
from .order import is_ungrouped
from .own_copy import copied
from .step import Norm

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@torch.no_grad()
def shrink(model: AnyModule, example: Example) -> AnyModule:
    """A copy without dead units: ordinary layers with fewer features and channels, which compute the same in eval.

    >>> model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    >>> _ = model[2].weight.data[:, 3:].zero_()  # only three units are read
    >>> shrink(model, torch.zeros(1, 4))
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )

    Every layer keeps one unit at least; units that meet a grouped convolution stay, and so do those that
    `remove_dead_paths` leaves alone. The copy runs the model's own forward, which must not name the widths.
    """
    smaller = copied(model)
    remove_dead_paths(smaller, example)
    with evaluating(smaller):
        chains, _ = find_chains(smaller, example)
    for chain, keep in [(chain, _kept(chain)) for chain in chains if is_ungrouped(chain)]:
        _cut_(chain, keep)
    _check_same(model, smaller, example)
    return smaller


def _kept(chain: Chain) -> Tensor:
    keep = live_units(chain)
    return keep if keep.any() else torch.arange(len(keep), device=keep.device) == 0


def _cut_(chain: Chain, keep: Tensor) -> None:
    """Takes the other units out of a layer, its norms and its readers, in place."""
    _cut_units_(chain.layer, keep)
    for norm in chain.norms:
        _cut_norm_(norm, keep.repeat_interleave(norm.num_features // len(keep)))
    for reader in chain.readers:
        _cut_inputs_(
            reader.layer, keep.repeat_interleave(reader.layer.weight.shape[1] // len(keep))
        )


def _cut_units_(layer: Layer, keep: Tensor) -> None:
    _cut_parameters_(layer, keep)
    setattr(
        layer, "out_features" if isinstance(layer, nn.Linear) else "out_channels", int(keep.sum())
    )


def _cut_inputs_(layer: Layer, keep: Tensor) -> None:
    layer.weight = _part(layer.weight, keep, axis=1)
    setattr(
        layer, "in_features" if isinstance(layer, nn.Linear) else "in_channels", int(keep.sum())
    )


def _cut_norm_(norm: Norm, keep: Tensor) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean, norm.running_var = norm.running_mean[keep], norm.running_var[keep]
    _cut_parameters_(norm, keep)
    norm.num_features = int(keep.sum())


def _cut_parameters_(module: Layer | Norm, keep: Tensor) -> None:
    for name, parameter in module.named_parameters():
        setattr(module, name, _part(parameter, keep))


def _part(parameter: Tensor, keep: Tensor, *, axis: int = 0) -> nn.Parameter:
    kept = parameter.detach().index_select(axis, keep.nonzero().flatten())
    return nn.Parameter(kept, requires_grad=parameter.requires_grad)


def _check_same(model: nn.Module, smaller: nn.Module, example: Example) -> None:
    with evaluating(model), evaluating(smaller):
        wanted = outputs(model, example)
        try:
            found = outputs(smaller, example)
        except Exception as error:
            raise ValueError(_cannot_shrink(model, f"fails with fewer units ({error})")) from error
    if not is_same(found, wanted):
        raise ValueError(_cannot_shrink(model, "computes something else with fewer units"))


def _cannot_shrink(model: nn.Module, problem: str) -> str:
    return (
        f"the forward of {type(model).__name__} {problem}; it must not name the widths of its layers: "
        "write flatten(1) rather than view(-1, 800), or use remove_dead_paths, which keeps all shapes"
    )
