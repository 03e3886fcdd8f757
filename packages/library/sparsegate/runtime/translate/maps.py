"""Rules for functions of elements, norms, softmax and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import fx

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator


def _unary(function: Function, x: float = 0.0, y: float = 0.0) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        source = call.get("self", call.get("input"))
        return _apply(made, call, function, x, y) if made.floats(source) else None

    return rule


def _apply(
    made: Translator, call: Call, function: Function, x: float = 0.0, y: float = 0.0
) -> n.Node:
    read = made.value(call.get("self", call.get("input")))
    return made.add(n.Map(inputs=(read,), shape=call.shape, function=function, x=x, y=y))


def _settings(function: Function, x: str, y: str = "") -> Rule:
    """A function whose constants are arguments of the operator."""

    def rule(made: Translator, call: Call) -> n.Node | None:
        if not made.floats(call["self"]):
            return None
        return _apply(made, call, function, float(call[x]), float(call[y]) if y else 0.0)

    return rule


def _clamp(made: Translator, call: Call) -> n.Node | None:
    low = call.get("min", call.get("min_val"))
    high = call.get("max", call.get("max_val"))
    if not made.floats(call["self"]) or any(isinstance(one, fx.Node) for one in (low, high)):
        return None
    x = -math.inf if low is None else float(low)
    return _apply(made, call, Function.CLAMP, x, math.inf if high is None else float(high))


def _gelu(made: Translator, call: Call) -> n.Node | None:
    is_tanh = call.get("approximate") == "tanh"
    return _apply(made, call, Function.GELU_TANH if is_tanh else Function.GELU)


def _softplus(made: Translator, call: Call) -> n.Node | None:
    return (
        _apply(made, call, Function.SOFTPLUS)
        if call["beta"] == 1 and call["threshold"] >= 20
        else None
    )


def _elu(made: Translator, call: Call) -> n.Node | None:
    plain = call.get("scale", 1) == 1 and call.get("input_scale", 1) == 1
    return _apply(made, call, Function.ELU, float(call["alpha"])) if plain else None


def _binary(function: Function) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        one, other = call["self"], call["other"]
        if call.get("alpha", 1) != 1 or call.get("rounding_mode") is not None:
            return None
        if _number(made, other) is not None and made.floats(one):
            return _with_number(made, call, function, one, float(_number(made, other) or 0))
        a, b = made.number(one), made.number(other)
        if a is None or b is None or not (made.floats(one) or made.floats(other)):
            return None
        return made.add(n.Map(inputs=(a, b), shape=call.shape, function=function))

    return rule


def _number(made: Translator, value: Any) -> float | None:
    """A number, or a constant that has one element."""
    if isinstance(value, int | float):
        return float(value)
    if made.is_fixed(value) and value.meta["val"].ndim == 0:
        return float(made.array(value))
    return None


def _with_number(
    made: Translator, call: Call, function: Function, one: fx.Node, number: float
) -> n.Node | None:
    read = made.value(one)
    if read.shape != call.shape:
        return None
    affine = {
        Function.ADD: (1.0, number),
        Function.SUB: (1.0, -number),
        Function.MUL: (number, 0.0),
        Function.DIV: (1.0 / number if number else math.inf, 0.0),
    }
    if function == Function.MAX:
        return made.map(Function.CLAMP, read, x=number, y=math.inf)
    if function == Function.MIN:
        return made.map(Function.CLAMP, read, x=-math.inf, y=number)
    factor, summand = affine[function]
    return made.map(Function.AFFINE, read, x=factor, y=summand)


def _rsub(made: Translator, call: Call) -> n.Node | None:
    number = _number(made, call["other"])
    if number is None or call.get("alpha", 1) != 1 or not made.floats(call["self"]):
        return None
    return made.map(Function.AFFINE, made.value(call["self"]), x=-1.0, y=number)


def _power(made: Translator, call: Call) -> n.Node | None:
    exponent = call["exponent"]
    if not isinstance(exponent, int | float) or not made.floats(call["self"]):
        return None
    known = {2: Function.SQUARE, 0.5: Function.SQRT, -0.5: Function.RSQRT, -1: Function.RECIPROCAL}
    if exponent in known:
        return _apply(made, call, known[exponent])
    if exponent == 3:
        read = made.value(call["self"])
        square = made.map(Function.SQUARE, read)
        return made.add(n.Map(inputs=(square, read), shape=call.shape, function=Function.MUL))
    return _apply(made, call, Function.POW, float(exponent))


def _prelu(made: Translator, call: Call) -> n.Node | None:
    if not made.is_fixed(call["weight"]):
        return None
    read, slope = made.value(call["self"]), made.array(call["weight"])
    rest = (1,) * max(0, len(read.shape) - 2)
    weight = made.fixed(slope.reshape(-1, *rest) if len(read.shape) > 1 else slope)
    return made.add(n.Map(inputs=(read, weight), shape=call.shape, function=Function.PRELU))


# -- norms --------------------------------------------------------------------------------------


def _layer_norm(made: Translator, call: Call) -> n.Node | None:
    return _norm(made, call, rms=False)


def _rms_norm(made: Translator, call: Call) -> n.Node | None:
    return _norm(made, call, rms=True)


def _norm(made: Translator, call: Call, *, rms: bool) -> n.Node | None:
    weight, bias = call.get("weight"), call.get("bias")
    read = made.value(call["input"])
    if not all(one is None or made.is_fixed(one) for one in (weight, bias)):
        return None
    size = math.prod(call["normalized_shape"])
    dims = len(call["normalized_shape"])
    flat = made.reshape(read, (*read.shape[: len(read.shape) - dims], size))
    eps = call.get("eps")
    out = n.LayerNorm(
        inputs=(flat,),
        shape=flat.shape,
        weight=None if weight is None else made.array(weight).reshape(-1),
        bias=None if bias is None else made.array(bias).reshape(-1),
        eps=float(np.finfo(np.float32).eps if eps is None else eps),
        rms=rms,
    )
    return made.reshape(made.add(out), call.shape)


def _group_norm(made: Translator, call: Call) -> n.Node | None:
    return _by_groups(made, call, call["num_groups"])


def _instance_norm(made: Translator, call: Call) -> n.Node | None:
    if not call["use_input_stats"]:
        return None
    return _by_groups(made, call, call.shape[1])


def _by_groups(made: Translator, call: Call, groups: int) -> n.Node | None:
    weight, bias = call.get("weight"), call.get("bias")
    if not all(one is None or made.is_fixed(one) for one in (weight, bias)):
        return None
    read = made.value(call["input"])
    as_images = made.reshape(read, _as_images(read.shape))
    out = n.GroupNorm(
        inputs=(as_images,),
        shape=as_images.shape,
        weight=None if weight is None else made.array(weight),
        bias=None if bias is None else made.array(bias),
        eps=float(call["eps"]),
        groups=groups,
    )
    return made.reshape(made.add(out), call.shape)


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 4:
        return shape
    return (*shape[:2], 1, math.prod(shape[2:]))


def _batch_norm(made: Translator, call: Call) -> n.Node | None:
    mean, variance = call["running_mean"], call["running_var"]
    given = [call["weight"], call["bias"]]
    if call.get("training") or not (made.is_fixed(mean) and made.is_fixed(variance)):
        return None
    if not all(one is None or made.is_fixed(one) for one in given):
        return None
    weight, bias = (None if one is None else made.array(one).astype(np.float64) for one in given)
    scale = 1 / np.sqrt(made.array(variance).astype(np.float64) + call["eps"])
    scale = scale if weight is None else scale * weight
    shift = -made.array(mean).astype(np.float64) * scale
    shift = shift if bias is None else shift + bias
    source = call["input"]
    read = made.value(source)
    folded = _folded(made, read, scale, shift) if len(source.users) == 1 else None
    if folded is not None:
        return folded
    rest = (1,) * (len(read.shape) - 2)
    factor = made.fixed(scale.astype(np.float32).reshape(-1, *rest))
    summand = made.fixed(shift.astype(np.float32).reshape(-1, *rest))
    product = made.add(n.Map(inputs=(read, factor), shape=call.shape, function=Function.MUL))
    return made.add(n.Map(inputs=(product, summand), shape=call.shape, function=Function.ADD))


def _folded(made: Translator, read: n.Node, scale: Any, shift: Any) -> n.Node | None:
    """The layer before with its rows scaled and its biases shifted."""
    if isinstance(read, n.Reshape) and isinstance(read.inputs[0], n.Conv):
        inner = _folded(made, read.inputs[0], scale, shift)
        return None if inner is None else made.reshape(inner, read.shape)
    if not isinstance(read, n.Conv | n.Linear | n.TransposedConv):
        return None
    if isinstance(read, n.Linear) and len(read.shape) != 2:
        return None
    bias = shift if read.bias is None else read.bias.astype(np.float64) * scale + shift
    if isinstance(read, n.TransposedConv):
        groups = read.groups
        outputs = read.weight.shape[1]
        each = np.repeat(scale.reshape(groups, outputs), len(read.weight) // groups, axis=0)
        weight = read.weight.astype(np.float64) * each[:, :, None, None]
    else:
        weight = read.weight.astype(np.float64) * scale.reshape(-1, *(1,) * (read.weight.ndim - 1))
    unscaled = None
    if read.unscaled is None:
        unscaled = n.Unscaled(read.weight, scale.astype(np.float32))
    return made.add(
        _with(
            read,
            weight=weight.astype(np.float32),
            bias=bias.astype(np.float32),
            unscaled=unscaled,
        )
    )


def _with(node: Any, **changes: Any) -> n.Node:
    from dataclasses import replace

    made: n.Node = replace(node, **changes)
    return made


# -- softmax and reductions ---------------------------------------------------------------------


def _softmax(log: bool) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        if not made.floats(call["self"]) or not call.shape:
            return None
        read = made.value(call["self"])
        dim = call["dim"] % len(call.shape)
        return made.add(n.Softmax(inputs=(read,), shape=call.shape, dimension=dim, log=log))

    return rule


def _reduce(function: str) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        if not made.floats(call["self"]):
            return None
        read = made.value(call["self"])
        rank = len(read.shape)
        given = call.get("dim")
        given = [given] if isinstance(given, int) else given
        dims = tuple(sorted(dim % rank for dim in given)) if given else tuple(range(rank))
        if not dims or math.prod(read.shape) == 0:
            return None
        kept = tuple(1 if dim in dims else size for dim, size in enumerate(read.shape))
        made_ = made.add(n.Reduce(inputs=(read,), shape=kept, function=function, dimensions=dims))
        return made.reshape(made_, call.shape)

    return rule


RULES: dict[str, Rule] = {
    "relu": _unary(Function.RELU),
    "relu6": _unary(Function.RELU6),
    "sigmoid": _unary(Function.SIGMOID),
    "tanh": _unary(Function.TANH),
    "silu": _unary(Function.SILU),
    "hardsigmoid": _unary(Function.HARD_SIGMOID),
    "hardswish": _unary(Function.HARD_SWISH),
    "mish": _unary(Function.MISH),
    "exp": _unary(Function.EXP),
    "log": _unary(Function.LOG),
    "erf": _unary(Function.ERF),
    "sqrt": _unary(Function.SQRT),
    "rsqrt": _unary(Function.RSQRT),
    "reciprocal": _unary(Function.RECIPROCAL),
    "abs": _unary(Function.ABS),
    "neg": _unary(Function.NEG),
    "square": _unary(Function.SQUARE),
    "sin": _unary(Function.SIN),
    "cos": _unary(Function.COS),
    "floor": _unary(Function.FLOOR),
    "ceil": _unary(Function.CEIL),
    "round": _unary(Function.ROUND),
    "sign": _unary(Function.SIGN),
    "leaky_relu": _settings(Function.LEAKY_RELU, "negative_slope"),
    "elu": _elu,
    "gelu": _gelu,
    "softplus": _softplus,
    **dict.fromkeys(("clamp", "hardtanh", "clamp_min", "clamp_max"), _clamp),
    "add": _binary(Function.ADD),
    "sub": _binary(Function.SUB),
    "mul": _binary(Function.MUL),
    "div": _binary(Function.DIV),
    "maximum": _binary(Function.MAX),
    "minimum": _binary(Function.MIN),
    "rsub": _rsub,
    "pow": _power,
    "prelu": _prelu,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training.item"), _batch_norm),
    **dict.fromkeys(("softmax", "_softmax"), _softmax(False)),
    **dict.fromkeys(("log_softmax", "_log_softmax"), _softmax(True)),
    **{name: _reduce(name) for name in ("mean", "sum", "amax", "amin")},
}
