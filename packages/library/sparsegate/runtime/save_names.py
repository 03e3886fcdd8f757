"""Names the inputs and outputs of a model for a network file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx
from torch.utils import _pytree

from sparsegate.graph import Graph


def input_names(given: Any) -> list[str]:
    """Names of the leaves: those of keyword arguments, `x` for one, `x0` and so on for several."""
    if isinstance(given, dict):
        found, _ = _pytree.tree_flatten_with_path(given)
        return [_path(keys) for keys, _ in found]
    count = len(_pytree.tree_leaves(given))
    return ["x"] if count == 1 else [f"x{number}" for number in range(count)]


def output_names(graph: Graph) -> list[str]:
    """Names of the outputs by their place in what the model returns."""
    numbers = list(range(len(graph.returned)))
    names = [f"output{number}" for number in numbers]
    if len(numbers) == 1:
        names = ["output"]
    try:
        found, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(numbers, graph.structure))
        named = [_path(keys) for keys, _ in found]
    except Exception:  # classes that torch cannot rebuild from numbers
        named = []
    if len(named) == len(numbers) and len(set(named)) == len(named) and all(named):
        names = [name if not name.isdecimal() else f"output{name}" for name in named]
    return [
        name for name, one in zip(names, graph.returned, strict=True) if isinstance(one, fx.Node)
    ]


def _path(keys: Sequence[Any]) -> str:
    """The way to a leaf, such as `past.0`."""
    words = [
        str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in keys
    ]
    return ".".join(words)[:200]
