"""Multiplies the weights of a network file by their factors, once, after it has been read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import KeptArray

from .sketch import OperationRecord, Sketch


def scaled(sketch: Sketch) -> Sketch:
    """The sketch with weights that need no factors.

    Raises:
        ValueError: factors do not fit their weight.

    """
    tensors, names = dict(sketch.tensors), list(sketch.tensors)
    known: dict[Any, int] = {}
    records = []
    for record in sketch.records:
        fields = record.fields
        if fields.get("factors") is None:
            records.append(record)
            continue
        key = record.kind, fields["weight"], fields["factors"], fields.get("groups")
        if key not in known:
            weight, factors = (tensors[names[fields[name]]] for name in ("weight", "factors"))
            title = names[fields["weight"]]
            tensors[_free(title, tensors)] = _times(record, weight, factors, title)
            known[key] = len(tensors) - 1
        records.append(replace(record, fields={**fields, "weight": known[key], "factors": None}))
    used = {number for one in records for number in _tensors_of(one)}
    for number, name in enumerate(names):
        if number not in used:
            tensors[name] = None  # its memory is not needed any longer
    return Sketch(sketch.symbols, records, sketch.outputs, tensors)


def _tensors_of(record: OperationRecord) -> list[int]:
    names = ("weight", "factors", "bias", "table", "value")
    found = [record.fields[name] for name in names if record.fields.get(name) is not None]
    if record.kind == "pad":  # its value is a number
        found = []
    rules = [record.fields.get(name) for name in ("line_rule", "pixel_rule")]
    return [*found, *(number for rule in rules if rule is not None for number in rule.tensors)]


def _free(title: str, tensors: dict[str, Any]) -> str:
    base = title.removesuffix(".weight")
    number = 1
    while f"{base} {number}.weight" in tensors:
        number += 1
    return f"{base} {number}.weight"


def _times(record: OperationRecord, weight: Any, factors: Any, title: str) -> Any:
    """A weight with its outputs multiplied."""
    values = np.asarray(factors)
    rank = 2 if record.kind == "linear" else 4
    if weight.ndim != rank or values.ndim != 1 or str(values.dtype) != "float32":
        raise ValueError(
            f"the factors of {title} must be a vector of float32 for a weight of {rank} dimensions"
        )
    groups = record.fields.get("groups", (1,))[0]
    is_transposed = record.kind == "transposed conv"
    outputs = weight.shape[1] * groups if is_transposed else len(weight)
    if len(values) != outputs or len(weight) % groups or str(weight.dtype) != "float32":
        raise ValueError(f"{title} has {outputs} outputs and {len(values)} factors")
    if is_transposed:
        dense = np.asarray(weight)
        grouped = values.reshape(groups, -1).repeat(len(weight) // groups, axis=0)
        return _product(dense, grouped[:, :, None, None])
    if isinstance(weight, KeptArray):
        rows = weight.positions // max(1, weight.size // len(weight))
        return KeptArray(weight.shape, _product(weight.values, values[rows]), weight.where)
    return _product(weight, values.reshape(-1, *(1,) * (rank - 1)))


def _product(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    return (one.astype(np.float64) * other).astype(np.float32)
