"""Copies models, for changes and for trial runs, even if their classes cannot be copied."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn


def duplicated(model: nn.Module) -> nn.Module:
    """Returns a copy whose modules can be replaced without changing the model.

    >>> import threading
    >>> model = nn.Linear(2, 1)
    >>> model.lock = threading.Lock()  # cannot be copied
    >>> duplicated(model).lock is model.lock
    True

    A model that cannot be copied as a whole is copied module by module. The copy shares its tensors
    with the model, and everything that cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception:  # a class may refuse for any reason
        return _by_module(model)


def stand_in(model: nn.Module) -> nn.Module:
    """A copy for trial runs: it shares the parameters, and nothing else that a forward changes.

    >>> norm = nn.BatchNorm1d(2)
    >>> other = stand_in(norm)
    >>> other.weight is norm.weight, other.running_mean is norm.running_mean
    (True, False)
    """
    try:
        return copy.deepcopy(model, {id(one): one for one in model.parameters()})
    except Exception:  # a class may refuse for any reason
        return _by_module(model)


def _by_module(model: nn.Module) -> nn.Module:
    """A copy of every module, with the same tensors inside."""
    made: dict[int, Any] = {}
    for module in model.modules():
        made[id(module)] = type(module).__new__(type(module))
    for module in model.modules():
        mine = made[id(module)]
        for name, value in vars(module).items():
            mine.__dict__[name] = _attribute(value, made)
        for name, child in module._modules.items():
            mine.__dict__["_modules"][name] = made.get(id(child))
    return made[id(model)]  # type: ignore[no-any-return]


def _attribute(value: Any, made: dict[int, Any]) -> Any:
    """A module's attribute with the modules in it replaced by copies; looks into containers."""
    if isinstance(value, nn.Module):
        return made.get(id(value), value)
    if isinstance(value, list | tuple) and any(isinstance(one, nn.Module) for one in value):
        items = [made.get(id(one), one) for one in value]
        return tuple(items) if isinstance(value, tuple) else items
    return copy.copy(value) if isinstance(value, dict | list | set) else value
