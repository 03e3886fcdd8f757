"""Rules for ONNX operations on elements, and for those that move elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .reading import OnnxOperation, OnnxReading, Rule, Value


def _map(
    made: OnnxReading, read: n.Node, function: Function, x: float = 0.0, y: float = 0.0
) -> n.Node:
    return made.add(n.Map(inputs=(read,), shape=read.shape, function=function, x=x, y=y))


def _plain(function: Function) -> Rule:
    return lambda made, operation: _map(made, made.node(operation), function)


def _with_slope(function: Function, other: float) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        return _map(made, made.node(operation), function, float(operation.get("alpha", other)))

    return rule


def _binary(function: Function) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        one, other = made.node(operation, 0), made.node(operation, 1)
        shape = np.broadcast_shapes(one.shape, other.shape)
        return made.add(n.Map(inputs=(one, other), shape=shape, function=function))

    return rule


def _hard_sigmoid(made: OnnxReading, operation: OnnxOperation) -> Value:
    slope, start = (float(operation.get(name, x)) for name, x in (("alpha", 0.2), ("beta", 0.5)))
    line = _map(made, made.node(operation), Function.AFFINE, slope, start)
    return _map(made, line, Function.CLAMP, 0.0, 1.0)


def _clip(made: OnnxReading, operation: OnnxOperation) -> Value:
    bounds = []
    for index, name, other in ((1, "min", -math.inf), (2, "max", math.inf)):
        given = operation.get(name, made.array(operation, index))
        bounds.append(other if given is None else float(np.asarray(given).reshape(-1)[0]))
    return _map(made, made.node(operation), Function.CLAMP, *bounds)


def _gelu(made: OnnxReading, operation: OnnxOperation) -> Value:
    is_tanh = operation.get("approximate", b"none") in (b"tanh", "tanh")
    return _map(made, made.node(operation), Function.GELU_TANH if is_tanh else Function.GELU)


def _power(made: OnnxReading, operation: OnnxOperation) -> Value:
    exponent = made.array(operation, 1)
    if exponent is None or exponent.size != 1:
        raise operation.refused("its exponent is not one number")
    number = float(exponent.reshape(-1)[0])
    known = {2.0: Function.SQUARE, 0.5: Function.SQRT, -1.0: Function.RECIPROCAL}
    read = made.node(operation)
    return _map(made, read, known.get(number, Function.POW), number)


def _softmax(log: bool) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        read = made.node(operation)
        dim = int(operation.get("axis", -1)) % len(read.shape)
        return made.add(n.Softmax(inputs=(read,), shape=read.shape, dimension=dim, log=log))

    return rule


def _layer_norm(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    axis = int(operation.get("axis", -1)) % len(read.shape)
    size = math.prod(read.shape[axis:])
    flat = made.reshape(read, (*read.shape[:axis], size))
    arrays = [made.array(operation, index) for index in (1, 2)]
    weight, bias = (
        None if one is None else np.ascontiguousarray(one, np.float32).reshape(-1) for one in arrays
    )
    eps = float(operation.get("epsilon", 1e-5))
    out = n.LayerNorm(inputs=(flat,), shape=flat.shape, weight=weight, bias=bias, eps=eps)
    return made.reshape(made.add(out), read.shape)


def _reduce(function: str) -> Rule:
    def rule(made: OnnxReading, operation: OnnxOperation) -> Value:
        read = made.node(operation)
        rank = len(read.shape)
        given = made.numbers(operation, 1, "axes")
        over = tuple(sorted(dim % rank for dim in given)) if given else tuple(range(rank))
        shape = tuple(1 if dim in over else size for dim, size in enumerate(read.shape))
        out = made.add(n.Reduce(inputs=(read,), shape=shape, function=function, dimensions=over))
        if operation.get("keepdims", 1):
            return out
        return made.reshape(out, [size for dim, size in enumerate(shape) if dim not in over])

    return rule


# -- moves --------------------------------------------------------------------------------------


def _reshape(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    given = made.numbers(operation, 1, "shape")
    if given is None:
        raise operation.refused("it has no shape")
    shape = [
        read.shape[dim] if size == 0 and not operation.get("allowzero", 0) else size
        for dim, size in enumerate(given)
    ]
    if -1 in shape:
        rest = math.prod(size for size in shape if size != -1)
        shape[shape.index(-1)] = math.prod(read.shape) // max(1, rest)
    return _same_count(made, operation, read, shape)


def _same_count(made: OnnxReading, operation: OnnxOperation, read: n.Node, shape: Any) -> n.Node:
    if math.prod(shape) != math.prod(read.shape):
        raise operation.refused(f"{tuple(shape)} has another number of elements than {read.shape}")
    return made.reshape(read, shape)


def _flatten(made: OnnxReading, operation: OnnxOperation) -> Value:
    read, axis = made.node(operation), int(operation.get("axis", 1))
    axis = axis + len(read.shape) if axis < 0 else axis
    return made.reshape(read, (math.prod(read.shape[:axis]), math.prod(read.shape[axis:])))


def _squeeze(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    given = made.numbers(operation, 1, "axes")
    ones = [dim for dim, size in enumerate(read.shape) if size == 1]
    gone = ones if given is None else [dim % len(read.shape) for dim in given]
    shape = [size for dim, size in enumerate(read.shape) if dim not in gone]
    return _same_count(made, operation, read, shape)


def _unsqueeze(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    given = made.numbers(operation, 1, "axes") or []
    rank = len(read.shape) + len(given)
    new = {dim % rank for dim in given}
    sizes = iter(read.shape)
    return made.reshape(read, [1 if dim in new else next(sizes) for dim in range(rank)])


def _transpose(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    rank = len(read.shape)
    order = [int(one) for one in operation.get("perm") or range(rank)[::-1]]
    if sorted(order) != list(range(rank)):
        raise operation.refused(f"{order} is no order of {rank} dimensions")
    return made.permute(read, order)


def _concat(made: OnnxReading, operation: OnnxOperation) -> Value:
    reads = tuple(made.node(operation, index) for index in range(len(operation.inputs)))
    dim = int(operation.get("axis", 0)) % len(reads[0].shape)
    shape = list(reads[0].shape)
    shape[dim] = sum(one.shape[dim] for one in reads)
    return made.add(n.Join(inputs=reads, shape=tuple(shape), dimension=dim))


def _pad(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    given = made.numbers(operation, 1, "pads")
    rank = len(read.shape)
    is_plain = operation.get("mode", b"constant") in (b"constant", "constant")
    if given is None or len(given) != 2 * rank or not is_plain:
        raise operation.refused("expected a constant value on both sides of every dimension")
    value = made.array(operation, 2)
    filler = operation.get("value", 0.0) if value is None else value.reshape(-1)[0]
    sides = tuple((given[dim], given[rank + dim]) for dim in range(rank))
    shape = tuple(size + sum(pair) for size, pair in zip(read.shape, sides, strict=True))
    return made.add(n.Pad(inputs=(read,), shape=shape, sides=sides, value=float(filler)))


def _slice(made: OnnxReading, operation: OnnxOperation) -> Value:
    read = made.node(operation)
    starts, ends = (made.numbers(operation, 1, "starts"), made.numbers(operation, 2, "ends"))
    if starts is None or ends is None:
        raise operation.refused("it has no positions")
    axes = made.numbers(operation, 3, "axes") or list(range(len(starts)))
    steps = made.numbers(operation, 4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dim = axis % len(read.shape)
        places = range(read.shape[dim])[slice(start, end, step)]
        if step < 1 or not len(places):
            raise operation.refused("its step is negative, or it selects nothing")
        if len(places) == read.shape[dim]:
            continue
        shape = tuple(len(places) if d == dim else size for d, size in enumerate(read.shape))
        read = made.add(
            n.Slice(inputs=(read,), shape=shape, dimension=dim, start=places[0], step=step)
        )
    return read


def _expand(made: OnnxReading, operation: OnnxOperation) -> Value:
    read, given = made.node(operation), made.numbers(operation, 1, "shape")
    shape = np.broadcast_shapes(read.shape, tuple(given or ()))
    if shape == read.shape:
        return read
    return made.add(n.Expand(inputs=(read,), shape=shape))


def _same(made: OnnxReading, operation: OnnxOperation) -> Value:
    return made.node(operation)


def _cast(made: OnnxReading, operation: OnnxOperation) -> Value:
    if operation.get("to") != 1:
        raise operation.refused("the engine computes in float32 only")
    return made.node(operation)


UNARY = {
    "Relu": Function.RELU,
    "Sigmoid": Function.SIGMOID,
    "Tanh": Function.TANH,
    "Softplus": Function.SOFTPLUS,
    "HardSwish": Function.HARD_SWISH,
    "Mish": Function.MISH,
    "Exp": Function.EXP,
    "Log": Function.LOG,
    "Erf": Function.ERF,
    "Sqrt": Function.SQRT,
    "Reciprocal": Function.RECIPROCAL,
    "Abs": Function.ABS,
    "Neg": Function.NEG,
    "Sin": Function.SIN,
    "Cos": Function.COS,
    "Floor": Function.FLOOR,
    "Ceil": Function.CEIL,
    "Round": Function.ROUND,
    "Sign": Function.SIGN,
}
BINARY = {
    "Add": Function.ADD,
    "Sub": Function.SUB,
    "Mul": Function.MUL,
    "Div": Function.DIV,
    "Max": Function.MAX,
    "Min": Function.MIN,
    "PRelu": Function.PRELU,
}
RULES: dict[str, Rule] = {
    **{name: _plain(function) for name, function in UNARY.items()},
    **{name: _binary(function) for name, function in BINARY.items()},
    "LeakyRelu": _with_slope(Function.LEAKY_RELU, 0.01),
    "Elu": _with_slope(Function.ELU, 1.0),
    "HardSigmoid": _hard_sigmoid,
    "Clip": _clip,
    "Gelu": _gelu,
    "Pow": _power,
    "Softmax": _softmax(False),
    "LogSoftmax": _softmax(True),
    "LayerNormalization": _layer_norm,
    "ReduceMean": _reduce("mean"),
    "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("amax"),
    "ReduceMin": _reduce("amin"),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Pad": _pad,
    "Slice": _slice,
    "Expand": _expand,
    "Identity": _same,
    "Dropout": _same,
    "Cast": _cast,
}
