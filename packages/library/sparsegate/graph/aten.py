"""What the operators of ATen mean; the only module that knows their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .node import (
    AdaptivePool,
    Constant,
    Conv,
    Linear,
    Mean,
    Node,
    Norm,
    Other,
    Pad,
    Pointwise,
    Pool,
    Reshape,
    Slice,
)

VARYING = object()
"""An argument that is computed from sizes."""


@dataclass(frozen=True)
class AtenCall:
    """A call of an operator."""

    operator: str
    """Its name, without namespace and overload."""
    index: int
    """Which of its results is meant."""
    arguments: dict[str, Any]
    """Nodes, constants, numbers; `VARYING` for numbers that depend on the batch."""
    facts: dict[str, Any]
    """What every node says of itself."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The activations that it reads."""
        found: tuple[Node, ...] = self.facts["inputs"]
        return found

    @property
    def keeps_shape(self) -> bool:
        """Whether it reads one activation, and gives one of the same shape and type."""
        alike = (self.facts["shape"], self.facts["dtype"])
        return len(self.inputs) == 1 and alike == (self.inputs[0].shape, self.inputs[0].dtype)


Reader = Callable[[AtenCall], Node | None]


def read_call(call: AtenCall) -> Node:
    """The node of a call; one that does nothing is the node that it reads."""
    reader = READERS.get(call.operator) or (_pointwise if _is_pointwise(call) else None)
    found = None if reader is None else reader(call)
    return found or Other(**call.facts, function=call.operator)


def _is_pointwise(call: AtenCall) -> bool:
    target = call.facts["origin"].target
    return torch.Tag.pointwise in getattr(target, "tags", ()) or call.operator in POINTWISE


def _linear(call: AtenCall) -> Node | None:
    weight, bias = call.arguments["weight"], call.arguments["bias"]
    if not isinstance(weight, Constant) or not isinstance(bias, Constant | None):
        return None
    return Linear(**call.facts, weight=weight, bias=bias) if len(call.inputs) == 1 else None


def _conv(dimensions: int) -> Reader:
    def read(call: AtenCall) -> Node | None:
        given = call.arguments
        weight, bias = given["weight"], given["bias"]
        settings = [_whole(given[name], dimensions) for name in ("stride", "dilation")]
        if not isinstance(weight, Constant) or not isinstance(bias, Constant | None):
            return None
        if len(call.inputs) != 1 or None in settings:
            return None
        stride, dilation = settings
        assert stride is not None
        assert dilation is not None
        taps = tuple(weight.node.meta["val"].shape[2:])
        padding = _padding(given["padding"], taps, dilation)
        return Conv(
            **call.facts,
            weight=weight,
            bias=bias,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=given["groups"],
        )

    return read


def _padding(
    given: Any, taps: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Zeros before and after, for every dimension."""
    if given == "valid":
        return tuple((0, 0) for _ in taps)
    if given == "same":
        sums = [step * (size - 1) for step, size in zip(dilation, taps, strict=True)]
        return tuple((both // 2, both - both // 2) for both in sums)
    sides = _whole(given, len(taps))
    assert sides is not None
    return tuple((side, side) for side in sides)


def _norm(call: AtenCall) -> Node | None:
    given = call.arguments
    names = {"mean": "running_mean", "variance": "running_var", "weight": "weight", "bias": "bias"}
    tensors = {name: given[argument] for name, argument in names.items()}
    by_batch = bool(given.get("training")) or given["running_mean"] is None or call.index
    if by_batch or not all(isinstance(one, Constant | None) for one in tensors.values()):
        return None
    return Norm(**call.facts, **tensors, eps=given["eps"])


def _pool(kind: str, dimensions: int) -> Reader:
    def read(call: AtenCall) -> Node | None:
        given = call.arguments
        kernel = _whole(given["kernel_size"], dimensions)
        stride = _whole(given["stride"] or given["kernel_size"], dimensions)
        padding = _whole(given["padding"], dimensions)
        dilation = _whole(given.get("dilation", 1), dimensions)
        if call.index or None in (kernel, stride, padding, dilation):
            return None
        return Pool(
            **call.facts,
            kind=kind,
            kernel=kernel,  # type: ignore[arg-type]
            stride=stride,  # type: ignore[arg-type]
            padding=padding,  # type: ignore[arg-type]
            dilation=dilation,  # type: ignore[arg-type]
            ceil_mode=given["ceil_mode"],
            counts_padding=given.get("count_include_pad", True),
            divisor=given.get("divisor_override"),
        )

    return read


def _adaptive_pool(kind: str, dimensions: int) -> Reader:
    def read(call: AtenCall) -> Node | None:
        if call.index:
            return None
        if call.keeps_shape:
            return call.inputs[0]
        return AdaptivePool(**call.facts, kind=kind, dimensions=dimensions)

    return read


def _mean(call: AtenCall) -> Node | None:
    axes = call.arguments.get("dim")
    if not isinstance(axes, list) or call.facts["dtype"] != call.inputs[0].dtype:
        return None
    rank = len(call.inputs[0].shape)
    return Mean(**call.facts, dimensions=tuple(sorted(axis % rank for axis in axes)))


def _reshape(call: AtenCall) -> Node | None:
    if call.facts["dtype"] != call.inputs[0].dtype:
        return None  # a view that reads the same memory as numbers of another type
    if call.facts["shape"] == call.inputs[0].shape:
        return call.inputs[0]
    return Reshape(**call.facts | {"inputs": call.inputs[:1]})  # others lend their shape alone


def _slice(call: AtenCall) -> Node | None:
    given, source = call.arguments, call.inputs[0]
    if VARYING in (given["start"], given["end"]):
        return None
    dimension, start, end = given["dim"] % len(source.shape), given["start"] or 0, given["end"]
    size = source.shape[dimension]
    to_end = end is None or end >= size
    if to_end and start == 0 and given["step"] == 1:
        return source
    return Slice(
        **call.facts,
        dimension=dimension,
        start=start % size if size else 0,
        step=given["step"],
        to_end=to_end,
    )


def _pad(call: AtenCall) -> Node | None:
    given = call.arguments
    if VARYING in given["pad"]:
        return None
    if not any(given["pad"]):
        return call.inputs[0]
    mode, value = given.get("mode", "constant"), float(given["value"] or 0)
    return Pad(**call.facts, sides=tuple(given["pad"]), mode=mode, value=value)


def _dropout(call: AtenCall) -> Node | None:
    return call.inputs[0] if call.arguments["train"] is False else None


def _nothing(call: AtenCall) -> Node | None:
    return call.inputs[0] if call.keeps_shape else None


def _pointwise(call: AtenCall) -> Node | None:
    """An elementwise function, if all tensors that it reads are activations of its shape."""
    alike = (call.facts["shape"], call.facts["dtype"])
    if not call.inputs or any((one.shape, one.dtype) != alike for one in call.inputs):
        return None
    others = [value for value in call.arguments.values() if not isinstance(value, Node)]
    if any(value is VARYING or isinstance(value, Constant) for value in others):
        return None
    schema = call.facts["origin"].target._schema
    changed = any(
        not isinstance(given := call.arguments[one.name], Node)
        and not (one.has_default_value() and given == one.default_value)
        for one in schema.arguments
    )
    return Pointwise(**call.facts, function=call.operator, has_settings=changed)


def _whole(value: Any, dimensions: int) -> tuple[int, ...] | None:
    """A setting for every dimension, of which one may stand for all; None if it varies."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    values = values * dimensions if len(values) == 1 else values
    return tuple(values) if all(isinstance(one, int) for one in values) else None


POINTWISE = ("log_sigmoid", "hardswish", "softsign", "tanhshrink")
"""Elementwise operators that torch does not tag as such."""
RESHAPES = ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as")
NOTHING = ("contiguous", "clone", "detach", "alias", "to", "expand", "lift_fresh", "type_as")
"""Operators that do nothing where they keep shape and type."""
READERS: dict[str, Reader] = {
    "linear": _linear,
    "batch_norm": _norm,
    "_native_batch_norm_legit_no_training": _norm,
    **{f"conv{size}d": _conv(size) for size in (1, 2, 3)},
    **{f"max_pool{size}d": _pool("max", size) for size in (1, 2, 3)},
    **{f"max_pool{size}d_with_indices": _pool("max", size) for size in (1, 2, 3)},
    **{f"avg_pool{size}d": _pool("mean", size) for size in (1, 2, 3)},
    **{f"adaptive_max_pool{size}d": _adaptive_pool("max", size) for size in (1, 2, 3)},
    **{f"adaptive_avg_pool{size}d": _adaptive_pool("mean", size) for size in (1, 2, 3)},
    "mean": _mean,
    **dict.fromkeys((*RESHAPES, "_unsafe_view", "reshape_as"), _reshape),
    "slice": _slice,
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), _dropout),
    **dict.fromkeys(NOTHING, _nothing),
}
