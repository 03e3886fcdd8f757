"""Rules for ONNX operations with weights, for pools, and for interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .reading import OnnxOperation, OnnxReading, Rule, Value


def _images(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def _both(operation: OnnxOperation, name: str, dims: int, other: int) -> tuple[int, int]:
    """A setting for lines and pixels; images of one dimension have one line."""
    given = [int(one) for one in operation.get(name) or [other] * dims]
    if len(given) != dims:
        raise operation.refused(f"{name} has {len(given)} numbers for {dims} dimensions")
    return (given[0], given[1]) if dims == 2 else (other, given[0])


def _dims(operation: OnnxOperation, read: n.Node) -> int:
    if len(read.shape) not in (3, 4):
        raise operation.refused(f"it reads {len(read.shape)} dimensions; expected 3 or 4")
    return len(read.shape) - 2


def _sides(
    operation: OnnxOperation,
    size: tuple[int, ...],
    taps: tuple[int, int],
    stride: tuple[int, int],
    gap: tuple[int, int],
    dims: int,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Zeros before and after, for lines and pixels."""
    auto = operation.get("auto_pad", b"NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for axis in (0, 1):
            count = -(-size[axis] // stride[axis])
            reach = gap[axis] * (taps[axis] - 1) + 1
            both = max(0, (count - 1) * stride[axis] + reach - size[axis])
            small = both // 2
            found.append((small, both - small) if auto == "SAME_UPPER" else (both - small, small))
        return found[0], found[1]
    pads = [int(one) for one in operation.get("pads") or [0] * (2 * dims)]
    pairs = [(pads[axis], pads[dims + axis]) for axis in range(dims)]
    return (pairs[0], pairs[1]) if dims == 2 else ((0, 0), pairs[0])


def _window(size: int, sides: tuple[int, int], taps: int, stride: int, gap: int) -> int:
    return (size + sum(sides) - gap * (taps - 1) - 1) // stride + 1


def _conv(made: OnnxReading, operation: OnnxOperation) -> Value:
    read, weight = made.node(operation), made.array(operation, 1)
    dims = _dims(operation, read)
    if weight is None or weight.ndim != dims + 2:
        raise operation.refused("its weight has another number of dimensions than its input")
    kernel = weight.astype(np.float32).reshape(_images(weight.shape))
    source = _images(read.shape)
    stride, gap = (_both(operation, name, dims, 1) for name in ("strides", "dilations"))
    taps = (kernel.shape[2], kernel.shape[3])
    sides = _sides(operation, source[2:], taps, stride, gap, dims)
    sizes = [
        _window(source[2 + axis], sides[axis], taps[axis], stride[axis], gap[axis])
        for axis in (0, 1)
    ]
    groups = int(operation.get("group", 1))
    if kernel.shape[1] * groups != source[1] or min(sizes) < 1:
        raise operation.refused("its weight does not fit its input")
    out = n.Conv(
        inputs=(made.reshape(read, source),),
        shape=(source[0], len(kernel), *sizes),
        weight=np.ascontiguousarray(kernel),
        bias=_bias(made, operation),
        stride=stride,
        padding=sides,
        dilation=gap,
        groups=groups,
        name=operation.name or operation.inputs[1],
    )
    return _as_read(made, made.add(out), dims)


def _bias(made: OnnxReading, operation: OnnxOperation) -> Any:
    bias = made.array(operation, 2)
    return None if bias is None else np.ascontiguousarray(bias, np.float32).reshape(-1)


def _as_read(made: OnnxReading, node: n.Node, dims: int) -> n.Node:
    """Images of one dimension have no lines again."""
    return node if dims == 2 else made.reshape(node, (*node.shape[:2], node.shape[3]))


def _transposed(made: OnnxReading, operation: OnnxOperation) -> Value:
    read, weight = made.node(operation), made.array(operation, 1)
    dims = _dims(operation, read)
    if weight is None or weight.ndim != dims + 2:
        raise operation.refused("its weight has another number of dimensions than its input")
    kernel = weight.astype(np.float32).reshape(_images(weight.shape))
    source = _images(read.shape)
    stride, gap = (_both(operation, name, dims, 1) for name in ("strides", "dilations"))
    more = _both(operation, "output_padding", dims, 0)
    pads = [int(one) for one in operation.get("pads") or [0] * (2 * dims)]
    before, after = pads[:dims], pads[dims:]
    is_auto = operation.get("auto_pad", b"NOTSET") not in (b"NOTSET", "NOTSET")
    if before != after or operation.get("output_shape") or is_auto:
        raise operation.refused("it pads one side more than the other")
    padding = (before[0], before[1]) if dims == 2 else (0, before[0])
    groups = int(operation.get("group", 1))
    sizes = [
        (source[2 + axis] - 1) * stride[axis]
        - 2 * padding[axis]
        + gap[axis] * (kernel.shape[2 + axis] - 1)
        + more[axis]
        + 1
        for axis in (0, 1)
    ]
    out = n.TransposedConv(
        inputs=(made.reshape(read, source),),
        shape=(source[0], kernel.shape[1] * groups, *sizes),
        weight=np.ascontiguousarray(kernel),
        bias=_bias(made, operation),
        stride=stride,
        padding=padding,
        dilation=gap,
        groups=groups,
        name=operation.name or operation.inputs[1],
    )
    return _as_read(made, made.add(out), dims)


def _gemm(made: OnnxReading, operation: OnnxOperation) -> Value:
    weight = made.array(operation, 1)
    if weight is None or operation.get("transA", 0) or operation.get("alpha", 1.0) != 1.0:
        raise operation.refused(
            "expected a constant matrix, alpha 1, and an input that is not transposed"
        )
    matrix = weight if operation.get("transB", 0) else weight.T
    bias = made.array(operation, 2)
    if bias is not None:
        bias = np.broadcast_to(bias * operation.get("beta", 1.0), (1, len(matrix)))[0]
    return linear(made, operation, matrix, bias)


def linear(made: OnnxReading, operation: OnnxOperation, matrix: Any, bias: Any) -> n.Node:
    """A matrix times the last dimension of the first input."""
    read = made.node(operation)
    if matrix.ndim != 2 or not read.shape or read.shape[-1] != matrix.shape[1]:
        raise operation.refused("its matrix does not fit its input")
    out = n.Linear(
        inputs=(read,),
        shape=(*read.shape[:-1], len(matrix)),
        weight=np.ascontiguousarray(matrix, np.float32),
        bias=None if bias is None else np.ascontiguousarray(bias, np.float32),
        name=operation.name or operation.inputs[1],
    )
    return made.add(out)


def _matmul(made: OnnxReading, operation: OnnxOperation) -> Value:
    one, other = made.value(operation, 0), made.value(operation, 1)
    if not isinstance(other, n.Node) and other is not None and other.ndim == 2:
        return linear(made, operation, other.T, None)
    a, b = made.node(operation, 0), made.node(operation, 1)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2] or one is None:
        raise operation.refused("its inputs do not fit")
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return made.add(n.Product(inputs=(a, b), shape=(*leading, a.shape[-2], b.shape[-1])))


def _pool(largest: bool) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        read = made.node(operation)
        dims = _dims(operation, read)
        source = _images(read.shape)
        kernel = _both(operation, "kernel_shape", dims, 1)
        stride, gap = (_both(operation, name, dims, 1) for name in ("strides", "dilations"))
        sides = _sides(operation, source[2:], kernel, stride, gap, dims)
        if any(one != other for one, other in sides) or operation.get("ceil_mode", 0):
            raise operation.refused("it pads one side more than the other, or rounds up")
        sizes = [
            _window(source[2 + axis], sides[axis], kernel[axis], stride[axis], gap[axis])
            for axis in (0, 1)
        ]
        out = n.Pool(
            inputs=(made.reshape(read, source),),
            shape=(*source[:2], *sizes),
            largest=largest,
            kernel=kernel,
            stride=stride,
            padding=(sides[0][0], sides[1][0]),
            dilation=gap,
            counts_padding=bool(operation.get("count_include_pad", 0)),
        )
        return _as_read(made, made.add(out), dims)

    return rule


def _global_pool(function: str) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        read = made.node(operation)
        over = tuple(range(2, len(read.shape)))
        shape = (*read.shape[:2], *(1 for _ in over))
        return made.add(n.Reduce(inputs=(read,), shape=shape, function=function, dimensions=over))

    return rule


def _batch_norm(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    arrays = [made.array(operation, index) for index in range(1, 5)]
    scale, bias, mean, variance = (np.asarray(one, np.float64) for one in arrays)
    factor = scale / np.sqrt(variance + operation.get("epsilon", 1e-5))
    rest = (1,) * (len(read.shape) - 2)
    value = read
    for function, numbers in ((Function.MUL, factor), (Function.ADD, bias - mean * factor)):
        constant = made.constant(numbers.reshape(-1, *rest))
        value = made.add(n.Map(inputs=(value, constant), shape=read.shape, function=function))
    return value


def _embedding(made: OnnxReading, operation: OnnxOperation) -> Value:
    table, ids = made.array(operation, 0), made.node(operation, 1)
    is_ids = isinstance(ids, n.Input) and ids.kind == "int64"
    if table is None or table.ndim != 2 or operation.get("axis", 0) or not is_ids:
        raise operation.refused("expected rows of a constant table, chosen by an input of indices")
    rows = np.ascontiguousarray(table, np.float32)
    shape = (*ids.shape, rows.shape[1])
    return made.add(n.Embedding(inputs=(ids,), shape=shape, table=rows, name=operation.inputs[0]))


def _resize(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    dims = _dims(operation, read)
    target = _target(made, operation, read)
    if tuple(target[:2]) != read.shape[:2]:
        raise operation.refused("it resizes the batch or the channels")
    axes = [
        _sources(operation, size, wanted)
        for size, wanted in zip(_images(read.shape)[2:], _images(tuple(target))[2:], strict=True)
    ]
    out = n.Upsample(
        inputs=(made.reshape(read, _images(read.shape)),),
        shape=_images(tuple(target)),
        lines=axes[0],
        pixels=axes[1],
    )
    return _as_read(made, made.add(out), dims)


def _target(made: OnnxReading, operation: OnnxOperation, read: n.Node) -> list[int]:
    """The shape of a resized tensor, from sizes or from scales."""
    sizes, scales = made.array(operation, 3), made.array(operation, 2)
    if sizes is not None and sizes.size == len(read.shape):
        return [int(one) for one in sizes]
    if scales is None or scales.size != len(read.shape):
        raise operation.refused("it has neither sizes nor scales")
    pairs = zip(read.shape, scales.tolist(), strict=True)
    return [math.floor(size * scale) for size, scale in pairs]


def _sources(operation: OnnxOperation, size: int, wanted: int) -> Any:
    """The two source positions of every output position, and the weight of the second."""
    words = {
        name: one.decode() if isinstance(one, bytes) else one
        for name, one in operation.attributes.items()
    }
    how = words.get("coordinate_transformation_mode", "half_pixel")
    at = np.arange(wanted, dtype=np.float64)
    ratio = size / wanted
    if how == "align_corners":
        where = at * ((size - 1) / (wanted - 1) if wanted > 1 else 0)
    elif how == "asymmetric":
        where = at * ratio
    elif how in ("half_pixel", "pytorch_half_pixel"):
        where = (at + 0.5) * ratio - 0.5 if wanted > 1 or how == "half_pixel" else at
    else:
        raise operation.refused(f"its positions are chosen by {how}")
    if words.get("mode", "nearest") == "nearest":
        rounding = words.get("nearest_mode", "round_prefer_floor")
        chosen = {
            "floor": np.floor(where),
            "ceil": np.ceil(where),
            "round_prefer_floor": np.ceil(where - 0.5),
            "round_prefer_ceil": np.floor(where + 0.5),
        }[rounding]
        first = np.clip(chosen, 0, size - 1).astype(np.int32)
        return first, first, np.zeros(wanted, np.float32)
    if words.get("mode") != "linear":
        raise operation.refused(f"it interpolates by {words.get('mode')}")
    where = np.clip(where, 0, size - 1)
    first = np.floor(where).astype(np.int32)
    second = np.minimum(first + 1, size - 1).astype(np.int32)
    return first, second, (where - first).astype(np.float32)


RULES: dict[str, Rule] = {
    "Conv": _conv,
    "ConvTranspose": _transposed,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MaxPool": _pool(True),
    "AveragePool": _pool(False),
    "GlobalAveragePool": _global_pool("mean"),
    "GlobalMaxPool": _global_pool("amax"),
    "BatchNormalization": _batch_norm,
    "Gather": _embedding,
    "Resize": _resize,
}
