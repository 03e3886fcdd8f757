"""Describes the engine's nodes as records, one rule for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsegate_runtime.engine import network as n

from .build_layers import REDUCTIONS
from .build_moves import sources
from .fields import CENTERS, CORNERS, LISTED, NEAREST, Rule
from .fit import DiffersError
from .kinds import TYPES
from .sizes import Size
from .sketch import OperationRecord

NUMPY_TYPES = ("float32", "int64", "bool")
SCALES = (0.0, 2.0, 4.0, 8.0, 3.0, 0.5, 0.25, 1.5)
"""Scales that are tried when the sources of a resize are described by a rule."""


def _input(made: Any, nodes: Sequence[n.Input]) -> OperationRecord:
    kind = made.same(nodes, "kind", "name")
    if kind["kind"] not in NUMPY_TYPES:
        raise ValueError(
            f"the input {nodes[0].name} is of type {kind['kind']}, expected one of "
            f"{', '.join(NUMPY_TYPES)}"
        )
    number = NUMPY_TYPES.index(kind["kind"])
    fields = {"name": kind["name"], "type": number, "shape": made.shape(nodes)}
    return OperationRecord("input", fields=fields)


def _constant(made: Any, nodes: Sequence[n.Constant]) -> OperationRecord | None:
    """A constant; where its size follows a symbol, its first positions, or one that is repeated."""
    largest = max(nodes, key=lambda node: node.value.size)
    value = largest.value
    dims = range(value.ndim)
    if any(node.value.ndim != value.ndim for node in nodes):
        raise DiffersError("a constant has different numbers of dimensions")
    where = {dim: [node.shape[dim] for node in nodes] for dim in dims}
    cuts, repeats = [], []
    for dim, sizes in where.items():
        if len(set(sizes)) == 1:
            continue
        one = value.take([0], axis=dim)
        if np.array_equal(value, np.broadcast_to(one, value.shape)):
            value = one
            repeats.append(dim)
        else:
            cuts.append(dim)
    _check_prefix(value, nodes)
    if str(value.dtype) not in NUMPY_TYPES:
        raise ValueError(f"a constant is of type {value.dtype}, expected {', '.join(TYPES)}")
    number = made.tensor(np.ascontiguousarray(value), made.title(largest))
    made.records.append(OperationRecord("constant", fields={"value": number}))
    for dim in cuts:
        made.limit(value.shape[dim], where[dim])
        size = made.size(nodes, where[dim])
        fields = {"dimension": (dim,), "start": Size(), "step": (1,), "size": size}
        made.records.append(OperationRecord("slice", (len(made.records) - 1,), fields))
    if repeats:
        shape = tuple(made.size(nodes, where[dim]) for dim in dims)
        made.records.append(OperationRecord("expand", (len(made.records) - 1,), {"shape": shape}))
    return None


def _check_prefix(value: Any, nodes: Sequence[n.Constant]) -> None:
    """Raises DiffersError unless every capture's constant is the beginning of the largest."""
    for node in nodes:
        part = value[tuple(slice(size) for size in node.shape)]
        if not np.array_equal(np.broadcast_to(part, node.shape), node.value, equal_nan=True):
            raise DiffersError("a constant has different values")


def _layer(made: Any, nodes: Sequence[Any]) -> dict[str, Any]:
    given = made.same(nodes, "weight", "bias", "unscaled")
    title, unscaled = made.title(nodes[0]), given["unscaled"]
    weight = given["weight"] if unscaled is None else unscaled.weight
    return {
        "weight": made.tensor(weight, f"{title}.weight"),
        "bias": made.optional(given["bias"], f"{title}.bias"),
        "factors": None if unscaled is None else made.tensor(unscaled.factors, f"{title}.factors"),
    }


def _linear(made: Any, nodes: Sequence[n.Linear]) -> OperationRecord:
    return OperationRecord("linear", fields=_layer(made, nodes))


def _conv(made: Any, nodes: Sequence[n.Conv]) -> OperationRecord:
    given = made.same(nodes, "stride", "padding", "dilation", "groups")
    fields = {**given, "padding": sum(given["padding"], ()), "groups": (given["groups"],)}
    return OperationRecord("conv", fields={**fields, **_layer(made, nodes)})


def _transposed(made: Any, nodes: Sequence[n.TransposedConv]) -> OperationRecord:
    given = made.same(nodes, "stride", "padding", "dilation", "groups")
    extra = {
        tuple(
            node.shape[2 + axis]
            - (node.inputs[0].shape[2 + axis] - 1) * node.stride[axis]
            + 2 * node.padding[axis]
            - node.dilation[axis] * (node.weight.shape[2 + axis] - 1)
            - 1
            for axis in (0, 1)
        )
        for node in nodes
    }
    if len(extra) > 1:
        raise DiffersError("a transposed convolution pads its output differently")
    fields = {**given, "groups": (given["groups"],), "extra": extra.pop()}
    return OperationRecord("transposed conv", fields={**fields, **_layer(made, nodes)})


def _map(made: Any, nodes: Sequence[n.Map]) -> OperationRecord:
    given = made.same(nodes, "function", "x", "y")
    return OperationRecord(
        "function", fields={"function": (int(given["function"]), given["x"], given["y"])}
    )


def _reshape(made: Any, nodes: Sequence[n.Reshape]) -> OperationRecord:
    return OperationRecord("reshape", fields={"shape": made.shape(nodes)})


def _permute(made: Any, nodes: Sequence[n.Permute]) -> OperationRecord:
    return OperationRecord("permute", fields=made.same(nodes, "dimensions"))


def _slice(made: Any, nodes: Sequence[n.Slice]) -> OperationRecord:
    given = made.same(nodes, "dimension", "step")
    dim = given["dimension"]
    start = made.size(nodes, [node.start for node in nodes], dim)
    size = made.size(nodes, [node.shape[dim] for node in nodes], dim)
    fields = {"dimension": (dim,), "start": start, "step": (given["step"],), "size": size}
    return OperationRecord("slice", fields=fields)


def _expand(made: Any, nodes: Sequence[n.Expand]) -> OperationRecord:
    return OperationRecord("expand", fields={"shape": made.shape(nodes)})


def _join(made: Any, nodes: Sequence[n.Join]) -> OperationRecord:
    return OperationRecord(
        "join", fields={"dimension": (made.same(nodes, "dimension")["dimension"],)}
    )


def _pad(made: Any, nodes: Sequence[n.Pad]) -> OperationRecord:
    return OperationRecord("pad", fields=made.same(nodes, "sides", "value"))


def _norm_tensors(made: Any, nodes: Sequence[Any]) -> dict[str, Any]:
    given, title = made.same(nodes, "weight", "bias", "eps"), made.title(nodes[0])
    return {
        "eps": given["eps"],
        "weight": made.optional(given["weight"], f"{title}.weight"),
        "bias": made.optional(given["bias"], f"{title}.bias"),
    }


def _layer_norm(made: Any, nodes: Sequence[n.LayerNorm]) -> OperationRecord:
    fields = {**_norm_tensors(made, nodes), "rms": int(made.same(nodes, "rms")["rms"])}
    return OperationRecord("layer norm", fields=fields)


def _group_norm(made: Any, nodes: Sequence[n.GroupNorm]) -> OperationRecord:
    fields = {**_norm_tensors(made, nodes), "groups": (made.same(nodes, "groups")["groups"],)}
    return OperationRecord("group norm", fields=fields)


def _softmax(made: Any, nodes: Sequence[n.Softmax]) -> OperationRecord:
    given = made.same(nodes, "dimension", "log")
    fields = {"dimension": (given["dimension"],), "log": int(given["log"])}
    return OperationRecord("softmax", fields=fields)


def _product(made: Any, nodes: Sequence[n.Product]) -> OperationRecord:  # noqa: ARG001
    return OperationRecord("product")


def _attention(made: Any, nodes: Sequence[n.Attention]) -> OperationRecord:
    given = made.same(nodes, "causal", "scale")
    return OperationRecord(
        "attention", fields={"causal": int(given["causal"]), "scale": given["scale"]}
    )


def _reduce(made: Any, nodes: Sequence[n.Reduce]) -> OperationRecord:
    given = made.same(nodes, "function", "dimensions")
    return OperationRecord(
        "reduce",
        fields={
            "function": REDUCTIONS.index(given["function"]),
            "dimensions": tuple(sorted(given["dimensions"])),
        },
    )


def _pool(made: Any, nodes: Sequence[n.Pool]) -> OperationRecord:
    names = ("largest", "kernel", "stride", "padding", "dilation", "counts_padding", "divisor")
    given = made.same(nodes, *names)
    return OperationRecord("pool", fields={**given, "divisor": (given["divisor"] or 0,)})


def _resize(made: Any, nodes: Sequence[n.Upsample]) -> OperationRecord:
    fields = {}
    for axis, name, rule in ((0, "lines", "line_rule"), (1, "pixels", "pixel_rule")):
        sizes = [node.shape[2 + axis] for node in nodes]
        fields[name] = made.size(nodes, sizes, 2 + axis)
        fields[rule] = _rule(made, nodes, axis)
    return OperationRecord("resize", fields=fields)


def _rule(made: Any, nodes: Sequence[n.Upsample], axis: int) -> Rule:
    """The rule that gives the sources of all captures, or their list."""
    wanted = [node.lines if axis == 0 else node.pixels for node in nodes]
    sizes = [(node.inputs[0].shape[2 + axis], node.shape[2 + axis]) for node in nodes]
    for rule in (NEAREST, CENTERS, CORNERS):
        for scale in SCALES if rule != CORNERS else (0.0,):
            found = [sources(rule, scale, *pair) for pair in sizes]
            pairs = zip(found, wanted, strict=True)
            if all(
                np.array_equal(a, b)
                for one, other in pairs
                for a, b in zip(one, other, strict=True)
            ):
                return Rule(rule, scale)
    if len(set(sizes)) > 1:
        raise DiffersError("an image is resized differently")
    title = made.title(nodes[0])
    types = (np.int32, np.int32, np.float32)
    names = ("first", "second", "share")
    listed = zip(wanted[0], types, names, strict=True)
    numbers = [
        made.tensor(np.ascontiguousarray(one, kind), f"{title}.{axis}.{name}")
        for one, kind, name in listed
    ]
    return Rule(LISTED, tensors=tuple(numbers))


def _embedding(made: Any, nodes: Sequence[n.Embedding]) -> OperationRecord:
    table = made.same(nodes, "table")["table"]
    return OperationRecord(
        "embedding", fields={"table": made.tensor(table, f"{made.title(nodes[0])}.weight")}
    )


def _recurrent(made: Any, nodes: Sequence[n.Recurrent]) -> OperationRecord:
    given, title = made.same(nodes, "cell", "reverse", "weight", "bias"), made.title(nodes[0])
    return OperationRecord(
        "recurrent",
        fields={
            "cell": n.CELLS.index(given["cell"]),
            "reverse": int(given["reverse"]),
            "weight": made.tensor(given["weight"], f"{title}.steps.weight"),
            "bias": made.optional(given["bias"], f"{title}.steps.bias"),
        },
    )


RULES: dict[type[n.Node], Any] = {
    n.Input: _input,
    n.Constant: _constant,
    n.Linear: _linear,
    n.Conv: _conv,
    n.TransposedConv: _transposed,
    n.Map: _map,
    n.Reshape: _reshape,
    n.Permute: _permute,
    n.Slice: _slice,
    n.Expand: _expand,
    n.Join: _join,
    n.Pad: _pad,
    n.LayerNorm: _layer_norm,
    n.GroupNorm: _group_norm,
    n.Softmax: _softmax,
    n.Product: _product,
    n.Attention: _attention,
    n.Reduce: _reduce,
    n.Pool: _pool,
    n.Upsample: _resize,
    n.Embedding: _embedding,
    n.Recurrent: _recurrent,
    n.Cast: lambda _, __: OperationRecord("cast"),
}
