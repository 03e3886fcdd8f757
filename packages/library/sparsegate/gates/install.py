"""Puts gates on a model and finds them again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn
from torch.nn.utils import parametrize

from sparsegate.sharded import is_sharded

from .draw import OPEN_ABOVE, Draw, Threshold
from .gate import Gate
from .recurrent import read_through_gates_
from .select import Select, Site
from .start import Nonzero, Start

LOGGER = logging.getLogger(__name__)
AnyModule = TypeVar("AnyModule", bound=nn.Module)
# Layers whose weight autocast casts wherever it is read.
CAST = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def gate(
    model: AnyModule,
    *,
    draw: Draw | None = None,
    start: Start | Mapping[str, Start] | None = None,
    select: Select | None = None,
) -> AnyModule:
    """Puts a gate on every selected weight, in place, and returns the model.

    >>> model = gate(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> list(gates(model))
    ['0.weight', '2.weight']

    Args:
        model: Any model. Gate it before wrapping it in DDP or FSDP and before building
            optimizers: the order of the parameters changes.
        draw: How masks come from gates; `Threshold()` unless given.
        start: The gates' first values; `Nonzero()` unless given: 0.9, and closed where a weight
            is zero, so that a sparse model keeps its zeros. A mapping from name patterns to starts
            applies the first pattern that matches a weight.
        select: Which weights get gates; every weight unless given.

    Returns:
        The model. Tied weights share one gate. No random number is consumed.

    Raises:
        ValueError: If the model is gated, sharded or wrapped already, no weight matches, or a
            chosen weight cannot have a gate.
    """
    if select is not None and not isinstance(select, Select):
        names = (select,) if isinstance(select, str) else tuple(select)
        raise ValueError(
            f"select is a Select, got {select!r}; write select=Select(names={names!r})"
        )
    _check_ungated(model)
    sites = (select or Select()).sites(unwrapped(model))
    starts = _start_of_each(sites, start or Nonzero())
    order = {id(site.module): list(site.module._parameters) for site in sites}
    shared: dict[int, Gate] = {}
    for site, begin in zip(sites, starts, strict=True):
        weight = site.parameter
        if id(weight) not in shared:
            shared[id(weight)] = Gate(begin(weight.detach()), draw or Threshold(), casts=True)
        shared[id(weight)].casts &= isinstance(site.module, CAST)
        parametrize.register_parametrization(
            site.module, site.tensor, shared[id(weight)], unsafe=True
        )
        site.module.parametrizations.order = order[id(site.module)]  # type: ignore[union-attr, assignment]
        read_through_gates_(site.module)
    _report(list(shared.values()))
    return model


def gates(model: nn.Module) -> dict[str, Gate]:
    """Returns the gates of a model by the names that their weights had before gating.

    >>> list(gates(gate(nn.Linear(2, 1))))
    ['weight']

    Args:
        model: Any model; it may be compiled or wrapped in DistributedDataParallel.

    Returns:
        One gate per weight; tied weights appear once. Empty if the model has no gates.
    """
    found: dict[str, Gate] = {}
    for path, each in _paths(model).items():  # "fc1.parametrizations.weight"
        owner, _, tensor = path.rpartition("parametrizations.")
        found[owner + tensor] = each
    return found


def gated_weights(model: nn.Module) -> list[nn.Parameter]:
    """Returns the gated weights themselves, unmasked, in the order of `gates`."""
    lists = [unwrapped(model).get_submodule(path) for path in _paths(model)]
    return [each.original for each in lists]  # type: ignore[misc]


def weights(model: nn.Module) -> list[nn.Parameter]:
    """Returns every parameter that is not a gate, for the weights' optimizer.

    Args:
        model: A gated model.
    """
    ours = {id(each.gate) for each in gates(model).values()}
    return [parameter for parameter in model.parameters() if id(parameter) not in ours]


def require_gates(model: nn.Module) -> dict[str, Gate]:
    """Returns the gates of a model; raises if it has none."""
    found = gates(model)
    if not found:
        raise ValueError("the model has no gates; put them on with sparsegate.gate(model) first")
    return found


def check_finished(model: nn.Module) -> None:
    """Raises if a model still has gates, for functions that need its final weights."""
    if present := list(gates(model)):
        raise ValueError(
            f"the model still has gates ({', '.join(present)}); "
            "take them off: sparsegate.finish(model)"
        )


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the model inside the wrappers of torch.compile and DistributedDataParallel."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return unwrapped(model.module)
    inner = getattr(model, "_orig_mod", None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


def _report(gates: list[Gate]) -> None:
    if not LOGGER.isEnabledFor(logging.INFO) or any(gate.gate.is_meta for gate in gates):
        return
    total = sum(gate.gate.numel() for gate in gates)
    closed = sum(int((gate.gate <= OPEN_ABOVE).sum()) for gate in gates)
    LOGGER.info(
        "%d weights have %s gates, %s start closed", len(gates), f"{total:,}", f"{closed:,}"
    )


def _paths(model: nn.Module) -> dict[str, Gate]:
    """Every gate by the path of its parametrization list."""
    modules = unwrapped(model).named_modules()
    return {path.rpartition(".")[0]: module for path, module in modules if isinstance(module, Gate)}


def _check_ungated(model: nn.Module) -> None:
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise ValueError(
            "the model is wrapped in DistributedDataParallel; gate it first, then wrap it"
        )
    if any(is_sharded(parameter) for parameter in model.parameters()):
        raise ValueError("the model is sharded (fully_shard); gate it first, then shard it")
    if present := list(gates(model)):
        raise ValueError(
            f"the model is already gated ({', '.join(present)}); finish it before gating it again"
        )


def _start_of_each(sites: list[Site], start: Start | Mapping[str, Start]) -> list[Start]:
    if isinstance(start, Start):
        return [start] * len(sites)
    unused = [
        pattern for pattern in start if not any(fnmatchcase(site.name, pattern) for site in sites)
    ]
    if unused:
        known = ", ".join(site.name for site in sites)
        raise ValueError(
            f"no gated weight matches the start for {', '.join(unused)}; "
            f"the gated weights are {known}"
        )
    names: dict[int, list[str]] = {}  # a tied weight has several
    for site in sites:
        names.setdefault(id(site.parameter), []).append(site.name)
    return [_first_match(names[id(site.parameter)], start) for site in sites]


def _first_match(names: list[str], start: Mapping[str, Start]) -> Start:
    for pattern, each in start.items():
        if any(fnmatchcase(name, pattern) for name in names):
            return each
    raise ValueError(
        f"{names[0]} has no start; add a pattern that matches it, or '*' for all others, "
        f"after {list(start)}"
    )
