"""Rules for TensorFlow Lite operations on elements, and for those that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .tflite_reading import CHANNELS_FIRST, TfliteOperation, TfliteReading, TfliteRule, is_given


def _unary(kind: str, **attributes: float) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        images = made.is_images(operation, 0)
        name = made.name(operation, 0, images=images)
        made.keep(operation, made.run(kind, operation, [name], **attributes), images=images)

    return rule


def _binary(kind: str) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        images = made.is_images(operation, 0, 1)
        names = [made.name(operation, index, images=images) for index in (0, 1)]
        made.keep(operation, made.run(kind, operation, names), images=images)

    return rule


def _leaky(made: TfliteReading, operation: TfliteOperation) -> None:
    _unary("LeakyRelu", alpha=operation.get("Alpha"))(made, operation)


def _gelu(made: TfliteReading, operation: TfliteOperation) -> None:
    images = made.is_images(operation, 0)
    name, how = made.name(operation, 0, images=images), "none"
    if operation.get("Approximate"):
        how = "tanh"
    out = made.run("Gelu", operation, [name], approximate=how)
    made.keep(operation, out, images=images)


def _function(function: Function) -> TfliteRule:
    """A function of the engine that ONNX has no operation for."""

    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        images = made.is_images(operation, 0)
        name = made.name(operation, 0, images=images)
        made.keep(operation, _mapped(made, operation, name, function), images=images)

    return rule


def _mapped(
    made: TfliteReading, operation: TfliteOperation, name: str, function: Function
) -> n.Node:
    read = made.onnx.node(operation.as_onnx([name], {}))
    return made.onnx.add(n.Map(inputs=(read,), shape=read.shape, function=function))


def _squared_difference(made: TfliteReading, operation: TfliteOperation) -> None:
    images = made.is_images(operation, 0, 1)
    names = [made.name(operation, index, images=images) for index in (0, 1)]
    apart = made.named(made.run("Sub", operation, names))
    made.keep(operation, _mapped(made, operation, apart, Function.SQUARE), images=images)


def _softmax(made: TfliteReading, operation: TfliteOperation) -> None:
    beta = operation.get("Beta", 1.0) if hasattr(operation.options, "Beta") else 1.0
    name = made.name(operation, 0)
    if beta != 1:
        name = made.named(
            made.run("Mul", operation, [name, made.named(np.array(beta, np.float32))])
        )
    kind = "LogSoftmax" if operation.kind == "LOG_SOFTMAX" else "Softmax"
    made.keep(operation, made.run(kind, operation, [name], axis=-1))


def _reduce(kind: str) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        images = made.is_images(operation, 0)
        name = made.name(operation, 0, images=images)
        axes, kept = made.numbers(operation, 1), bool(operation.get("KeepDims"))
        if not axes:
            made.keep(operation, made.onnx.values[name], images=images)
            return
        over = [CHANNELS_FIRST.index(axis % 4) for axis in axes] if images else axes
        out = made.run(kind, operation, [name], axes=over, keepdims=1 if images else kept)
        if images and not kept:
            node = made.onnx.node(operation.as_onnx([made.named(out)], {}))
            last = made.onnx.permute(node, (0, 2, 3, 1))
            gone = {axis % 4 for axis in axes}
            shape = [size for dim, size in enumerate(last.shape) if dim not in gone]
            out, images = made.onnx.reshape(last, shape), False
        made.keep(operation, out, images=images)

    return rule


# -- moves --------------------------------------------------------------------------------------


def _reshape(made: TfliteReading, operation: TfliteOperation) -> None:
    if is_given(operation, 1):
        shape = made.numbers(operation, 1)
    else:
        found = operation.get("NewShapeAsNumpy", [])
        shape = [int(one) for one in np.atleast_1d(found)]
    out = made.run("Reshape", operation, [made.name(operation, 0)], shape=shape, allowzero=1)
    made.keep(operation, out)


def _squeeze(made: TfliteReading, operation: TfliteOperation) -> None:
    dims = [
        int(operation.options.SqueezeDims(k)) for k in range(operation.get("SqueezeDimsLength"))
    ]
    attributes = {"axes": dims} if dims else {}
    made.keep(operation, made.run("Squeeze", operation, [made.name(operation, 0)], **attributes))


def _expand_dims(made: TfliteReading, operation: TfliteOperation) -> None:
    axes = made.numbers(operation, 1)
    made.keep(operation, made.run("Unsqueeze", operation, [made.name(operation, 0)], axes=axes))


def _transpose(made: TfliteReading, operation: TfliteOperation) -> None:
    perm = made.numbers(operation, 1)
    made.keep(operation, made.run("Transpose", operation, [made.name(operation, 0)], perm=perm))


def _concatenation(made: TfliteReading, operation: TfliteOperation) -> None:
    indices, axis = range(len(operation.inputs)), int(operation.get("Axis"))
    images = made.is_images(operation, *indices)
    names = [made.name(operation, index, images=images) for index in indices]
    axis = CHANNELS_FIRST.index(axis % 4) if images else axis
    made.keep(operation, made.run("Concat", operation, names, axis=axis), images=images)


def _pad(made: TfliteReading, operation: TfliteOperation) -> None:
    images = made.is_images(operation, 0)
    sides = made.array(operation, 1).reshape(-1, 2)
    if images and len(sides) == len(CHANNELS_FIRST):
        sides = sides[list(CHANNELS_FIRST)]
    value = float(made.array(operation, 2).reshape(-1)[0]) if is_given(operation, 2) else 0.0
    name, pads = made.name(operation, 0, images=images), sides.T.reshape(-1).tolist()
    made.keep(operation, made.run("Pad", operation, [name], pads=pads, value=value), images=images)


def _slice(made: TfliteReading, operation: TfliteOperation) -> None:
    starts, sizes = made.numbers(operation, 1), made.numbers(operation, 2)
    shape = made.onnx.values[made.name(operation, 0)].shape
    pairs = zip(starts, sizes, shape, strict=True)
    ends = [whole if size < 0 else start + size for start, size, whole in pairs]
    name = made.name(operation, 0)
    made.keep(operation, made.run("Slice", operation, [name], starts=starts, ends=ends))


def _strided_slice(made: TfliteReading, operation: TfliteOperation) -> None:
    if operation.get("EllipsisMask") or operation.get("NewAxisMask"):
        raise operation.refused("it adds dimensions, or leaves some out")
    name = made.name(operation, 0)
    value = made.onnx.values[name]
    starts, ends, steps = (made.numbers(operation, index) for index in (1, 2, 3))
    gone = [dim for dim in range(len(starts)) if operation.get("ShrinkAxisMask") >> dim & 1]
    for dim, step in enumerate(steps):
        if dim in gone:
            ends[dim] = starts[dim] + 1 or value.shape[dim]
        elif step < 1:
            raise operation.refused("its step is negative")
        else:
            starts[dim] = 0 if operation.get("BeginMask") >> dim & 1 else starts[dim]
            last = operation.get("EndMask") >> dim & 1
            ends[dim] = value.shape[dim] if last else ends[dim]
    if isinstance(value, np.ndarray):
        cut = value[tuple(map(slice, starts, ends, steps))]
        made.keep(operation, cut.squeeze(tuple(gone)) if gone else cut)
        return
    out = made.run("Slice", operation, [name], starts=starts, ends=ends, steps=steps)
    if gone:
        out = made.run("Squeeze", operation, [made.named(out)], axes=gone)
    made.keep(operation, out)


def _split(made: TfliteReading, operation: TfliteOperation) -> None:
    own = operation.kind == "SPLIT"
    data, axis = (1, 0) if own else (0, 2)
    name, dim = made.name(operation, data), made.numbers(operation, axis)[0]
    whole = made.onnx.values[name].shape[dim]
    count = len(operation.outputs)
    sizes = [whole // count] * count if own else made.numbers(operation, 1)
    if -1 in sizes:
        sizes[sizes.index(-1)] = whole - sum(size for size in sizes if size >= 0)
    if sum(sizes) != whole or len(sizes) != count:
        raise operation.refused("its parts do not add up")
    start = 0
    for output, size in enumerate(sizes):
        at: dict[str, Any] = {"starts": [start], "ends": [start + size], "axes": [dim]}
        made.keep(operation, made.run("Slice", operation, [name], **at), output=output)
        start += size


def _pack(made: TfliteReading, operation: TfliteOperation) -> None:
    axis, indices = int(operation.get("Axis")), range(len(operation.inputs))
    held = [made.held(operation, index) for index in indices]
    if all(isinstance(one, np.ndarray) for one in held):
        made.keep(operation, np.stack(held, axis))  # type: ignore[arg-type]
        return
    names = []
    for index in indices:
        name = made.name(operation, index)
        names.append(made.named(made.run("Unsqueeze", operation, [name], axes=[axis])))
    made.keep(operation, made.run("Concat", operation, names, axis=axis))


def _shape(made: TfliteReading, operation: TfliteOperation) -> None:
    sizes = made.onnx.values[made.name(operation, 0)].shape
    made.keep(operation, np.array(sizes, np.int64))


def _blocks(made: TfliteReading, operation: TfliteOperation) -> None:
    """Channels to places, or places to channels; a block's place counts before its channels."""
    read = made.onnx.node(operation.as_onnx([made.name(operation, 0, images=True)], {}))
    size, (batch, channels, height, width) = int(operation.get("BlockSize")), read.shape
    if operation.kind == "DEPTH_TO_SPACE":
        inner, rest = channels // size**2, (height, width)
        parts, order = (batch, size, size, inner, *rest), (0, 3, 4, 1, 5, 2)
        shape = (batch, inner, height * size, width * size)
    else:
        rest = (height // size, width // size)
        parts, order = (batch, channels, rest[0], size, rest[1], size), (0, 3, 5, 1, 2, 4)
        shape = (batch, channels * size**2, *rest)
    moved = made.onnx.permute(made.onnx.reshape(read, parts), order)
    made.keep(operation, made.onnx.reshape(moved, shape), images=True)


def _same(made: TfliteReading, operation: TfliteOperation) -> None:
    images = made.is_images(operation, 0)
    made.keep(operation, made.onnx.values[made.name(operation, 0, images=images)], images=images)


UNARY = {
    "RELU": "Relu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "ABS": "Abs",
    "NEG": "Neg",
    "SIN": "Sin",
    "COS": "Cos",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SIGN": "Sign",
}
BINARY = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "PRELU": "PRelu",
}
RULES: dict[str, TfliteRule] = {
    **{name: _unary(kind) for name, kind in UNARY.items()},
    **{name: _binary(kind) for name, kind in BINARY.items()},
    "RELU6": _unary("Clip", min=0.0, max=6.0),
    "RELU_N1_TO_1": _unary("Clip", min=-1.0, max=1.0),
    "ELU": _unary("Elu"),
    "LEAKY_RELU": _leaky,
    "GELU": _gelu,
    "SQUARE": _function(Function.SQUARE),
    "RSQRT": _function(Function.RSQRT),
    "SQUARED_DIFFERENCE": _squared_difference,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _softmax,
    "MEAN": _reduce("ReduceMean"),
    "SUM": _reduce("ReduceSum"),
    "REDUCE_MAX": _reduce("ReduceMax"),
    "REDUCE_MIN": _reduce("ReduceMin"),
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concatenation,
    "PAD": _pad,
    "PADV2": _pad,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "PACK": _pack,
    "SHAPE": _shape,
    "DEPTH_TO_SPACE": _blocks,
    "SPACE_TO_DEPTH": _blocks,
    "DEQUANTIZE": _same,
    "DENSIFY": _same,
}
