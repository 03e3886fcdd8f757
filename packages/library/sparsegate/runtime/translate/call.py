"""Reads a call of an operator: its name and all of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx


@dataclass(frozen=True, eq=False)
class Call:
    """A call of an operator."""

    node: fx.Node
    name: str
    """Its name, without namespace and overload."""
    arguments: dict[str, Any]
    """All arguments by name, defaults included: nodes of torch.fx, numbers, lists."""
    shape: tuple[int, ...]
    dtype: torch.dtype | None

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, other: Any = None) -> Any:
        """An argument, or the default if the operator has none of this name."""
        return self.arguments.get(name, other)


def call_of(node: fx.Node) -> Call | None:
    """The call of a node; None if it is not one that gives a tensor."""
    value, schema = node.meta.get("val"), getattr(node.target, "_schema", None)
    if schema is None or not isinstance(value, Tensor):
        return None
    name = schema.name.partition("::")[2]
    return Call(node, name, by_name(node, schema), shape_of(value), value.dtype)


def shape_of(value: Tensor) -> tuple[int, ...]:
    """The sizes of a tensor as plain numbers."""
    return tuple(int(size) for size in value.shape)


def by_name(node: fx.Node, schema: Any) -> dict[str, Any]:
    """All arguments of an operator, those with defaults included."""
    defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
    return {**defaults, **given, **node.kwargs}
