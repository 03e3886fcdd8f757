"""Follows the dimension of units through operations that do not mix them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeAlias

import torch
from torch import fx

from .graph import Graph
from .node import AdaptivePool, Mean, Node, Other, Pad, Pointwise, Pool, Reshape, Slice

Axes: TypeAlias = Mapping[Node, int]
"""The dimension of the units in each input that has units."""


def axis_after(node: Node, axes: Axes, graph: Graph) -> int | None:
    """Returns the dimension of the units in a node's result; None if mixed or unknown.

    Args:
        node: an operation.
        axes: the dimension of the units in those of its inputs that have any; at least one has.
        graph: the graph of the node.

    """
    if isinstance(node, Pointwise) or _is_pointwise(node):
        return _pointwise(node, axes, graph)
    if isinstance(node, Other):
        rule = RULES.get(node.function)
        return None if rule is None else rule(node, axes, graph)
    return _of_one(node, axes[node.input]) if len(node.inputs) == 1 else None


def _of_one(node: Node, axis: int) -> int | None:
    """The result of an operation with one input."""
    rank = len(node.input.shape)
    if isinstance(node, Reshape):
        return axis_in_shape(node.input.shape, axis, node.shape)
    if isinstance(node, Slice):
        return axis if axis != node.dimension else None
    if isinstance(node, Pool | AdaptivePool):
        pooled = len(node.kernel) if isinstance(node, Pool) else node.dimensions
        return axis if axis < rank - pooled else None
    if isinstance(node, Pad):
        return axis if axis < rank - len(node.sides) // 2 else None
    if isinstance(node, Mean) and axis not in node.dimensions:
        gone = sum(dimension < axis for dimension in node.dimensions)
        return axis if len(node.shape) == rank else axis - gone
    return None


def axis_in_shape(before: tuple[int, ...], axis: int, after: tuple[int, ...]) -> int | None:
    """The dimension of units after a reshape: as many elements come before it as before.

    >>> axis_in_shape((2, 50, 4, 4), 1, (2, 800))
    1
    >>> axis_in_shape((2, 7, 32), 2, (2, 7, 4, 8))  # four heads of eight features
    2
    """
    lead = prod(before[:axis])
    starts = [index for index in range(len(after)) if prod(after[:index]) == lead]
    joined = [index for index in starts if after[index] % before[axis] == 0]
    split = [
        index
        for index in starts
        if any(prod(after[index:end]) == before[axis] for end in range(index + 1, len(after) + 1))
    ]
    if axis in joined:
        return axis
    return joined[-1] if joined else split[-1] if split else None


def _is_pointwise(node: Node) -> bool:
    return torch.Tag.pointwise in getattr(node.origin.target, "tags", ())


def _pointwise(node: Node, axes: Axes, graph: Graph) -> int | None:
    """Aligns inputs at the last dimension; those without units must not vary by unit."""
    ends = {len(node.shape) - len(read.shape) + axis for read, axis in axes.items()}
    if len(ends) > 1:
        return None
    (axis,) = ends
    sizes = {read.shape[there] for read, there in axes.items()}
    if sizes != {node.shape[axis]} or not _same_for_all(node, axes, axis, graph):
        return None
    return axis


def _same_for_all(node: Node, axes: Axes, axis: int, graph: Graph) -> bool:
    """Whether the other inputs of an operation have no values of their own for each unit."""
    from_end = len(node.shape) - axis
    others = [read.shape for read in node.inputs if read not in axes]
    reads: list[fx.Node] = [read for read in node.origin.all_input_nodes if read in graph.constants]
    values = [read.meta.get("val") for read in reads]
    others += [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
    return all(len(shape) < from_end or shape[-from_end] == 1 for shape in others)


def _transposed(node: Other, axes: Axes, _: Graph) -> int | None:
    rank = len(node.input.shape)
    order = list(range(rank))
    if node.function == "permute":
        dims: Any = node.origin.args[1]
        order = [axis % rank for axis in dims]
    else:
        one, two = (int(axis) % rank for axis in node.origin.args[1:3])  # type: ignore[arg-type]
        order[one], order[two] = two, one
    return order.index(axes[node.input])


def _expanded(node: Other, axes: Axes, _: Graph) -> int | None:
    axis = axes[node.input] + len(node.shape) - len(node.input.shape)
    return axis if node.shape[axis] == node.input.shape[axes[node.input]] else None


def _by_row(node: Other, axes: Axes, _: Graph) -> int | None:
    """Softmax and norms over other dimensions than that of the units."""
    given, rank = _argument(node, 1), len(node.shape)
    if given is None:
        return None
    mixed = [given % rank] if isinstance(given, int) else range(rank - len(given), rank)
    axis = axes.get(node.inputs[0])
    return None if axis is None or axis in mixed or len(node.inputs) > 1 else axis


def _joined(node: Other, axes: Axes, _: Graph) -> int | None:
    """A concatenation along another dimension."""
    dimension = _argument(node, 1) or 0
    axis = _common(node, axes)
    return None if axis is None or dimension % len(node.shape) == axis else axis


def _products(node: Other, axes: Axes, graph: Graph) -> int | None:
    """Batched matrix products and attention: one for each unit."""
    axis = _common(node, axes, first=3 if node.function.startswith("scaled") else 2)
    if axis is None or axis >= len(node.shape) - 2 or not _same_for_all(node, axes, axis, graph):
        return None
    return axis


def _argument(node: Other, index: int) -> Any:
    """A positional argument of an operator, if it was given."""
    args = node.origin.args
    return args[index] if len(args) > index else None


def _common(node: Other, axes: Axes, first: int | None = None) -> int | None:
    """The common dimension of the units, if all of the first inputs have units there."""
    read = node.inputs[:first]
    ranks = {len(one.shape) for one in read}
    found = {axes.get(one) for one in read}
    return found.pop() if len(found) == 1 and ranks == {len(node.shape)} else None


def _resized(node: Other, axes: Axes, _: Graph) -> int | None:
    return 1 if axes[node.inputs[0]] == 1 else None


Rule = Callable[[Other, Axes, Graph], "int | None"]
RULES: dict[str, Rule] = {
    **dict.fromkeys(("transpose", "permute", "swapaxes"), _transposed),
    "expand": _expanded,
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "layer_norm", "rms_norm"), _by_row),
    **dict.fromkeys(("cat", "concat"), _joined),
    **dict.fromkeys(("matmul", "bmm", "scaled_dot_product_attention"), _products),
    **dict.fromkeys(("upsample_nearest2d", "upsample_bilinear2d"), _resized),
}
"""Rules for operators that keep units apart in some dimensions."""
