"""Rules for functions that the engine computes by several of its operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator

SELU = 1.6732632423543772, 1.0507009873554805
"""Alpha and scale of torch's SELU."""


def _of_one(compute: Callable[[Translator, Call, n.Node], n.Node | None]) -> Rule:
    """A rule for an operator on one tensor of floats."""

    def rule(made: Translator, call: Call) -> n.Node | None:
        source = call.get("self", call.get("input"))
        return compute(made, call, made.value(source)) if made.floats(source) else None

    return rule


# -- functions of elements -----------------------------------------------------------------------


def _selu(made: Translator, _: Call, read: n.Node) -> n.Node:
    below = made.map(Function.ELU, read, x=SELU[0])
    return made.map(Function.AFFINE, below, x=SELU[1])


def _celu(made: Translator, call: Call, read: n.Node) -> n.Node:
    alpha = float(call["alpha"])
    elu = made.map(Function.ELU, made.map(Function.AFFINE, read, x=1 / alpha), x=1.0)
    return made.map(Function.AFFINE, elu, x=alpha)


def _log_sigmoid(made: Translator, _: Call, read: n.Node) -> n.Node:
    return made.map(Function.NEG, made.map(Function.SOFTPLUS, made.map(Function.NEG, read)))


def _softplus(made: Translator, call: Call, read: n.Node) -> n.Node | None:
    beta = float(call["beta"])
    if call["threshold"] < 20 or beta <= 0:
        return None
    inner = made.map(Function.SOFTPLUS, made.map(Function.AFFINE, read, x=beta))
    return made.map(Function.AFFINE, inner, x=1 / beta)


def _softshrink(made: Translator, call: Call, read: n.Node) -> n.Node:
    edge = float(call["lambd"])
    return made.map(Function.SUB, read, made.map(Function.CLAMP, read, x=-edge, y=edge))


def _expm1(made: Translator, _: Call, read: n.Node) -> n.Node:
    """ELU is exp(x) - 1 below zero; above, the difference is exact enough."""
    above = made.map(Function.RELU, read)
    large = made.map(Function.AFFINE, made.map(Function.EXP, above), x=1.0, y=-1.0)
    small = made.map(Function.ELU, made.map(Function.CLAMP, read, x=-math.inf, y=0.0), x=1.0)
    return made.map(Function.ADD, large, small)


def _log1p(made: Translator, _: Call, read: n.Node) -> n.Node:
    return made.map(Function.LOG, made.map(Function.AFFINE, read, x=1.0, y=1.0))


def _with_factor(function: Function) -> Rule:
    """A sum or difference whose second part is multiplied."""

    def rule(made: Translator, call: Call) -> n.Node | None:
        if not made.floats(call["self"], call["other"]):
            return None
        scaled = made.map(Function.AFFINE, made.value(call["other"]), x=float(call["alpha"]))
        return made.map(function, made.value(call["self"]), scaled)

    return rule


def _floor_of_quotient(made: Translator, call: Call) -> n.Node | None:
    other = call["other"]
    if call.get("rounding_mode") != "floor" or not made.floats(call["self"]):
        return None
    if isinstance(other, int | float):
        quotient = made.map(
            Function.DIV, made.value(call["self"]), made.fixed(np.array(float(other)))
        )
    elif made.floats(other):
        quotient = made.map(Function.DIV, made.value(call["self"]), made.value(other))
    else:
        return None
    return made.map(Function.FLOOR, quotient)


def _power_of_number(made: Translator, call: Call) -> n.Node | None:
    base = call["self"]
    if not isinstance(base, int | float) or base <= 0 or not made.floats(call["exponent"]):
        return None
    read = made.value(call["exponent"])
    return made.map(Function.EXP, made.map(Function.AFFINE, read, x=math.log(base)))


def _addcmul(made: Translator, call: Call) -> n.Node | None:
    if not made.floats(call["self"], call["tensor1"], call["tensor2"]):
        return None
    one, two = made.value(call["tensor1"]), made.value(call["tensor2"])
    product = made.map(Function.MUL, one, two)
    scaled = made.map(Function.AFFINE, product, x=float(call["value"]))
    return made.map(Function.ADD, made.value(call["self"]), scaled)


def _lerp(made: Translator, call: Call) -> n.Node | None:
    weight = call["weight"]
    if not isinstance(weight, int | float) or not made.floats(call["self"], call["end"]):
        return None
    one, other = made.value(call["self"]), made.value(call["end"])
    step = made.map(Function.AFFINE, made.map(Function.SUB, other, one), x=float(weight))
    return made.map(Function.ADD, one, step)


# -- over dimensions -----------------------------------------------------------------------------


def _dims(given: Any, rank: int) -> tuple[int, ...]:
    given = [given] if isinstance(given, int) else given
    return tuple(sorted(dim % rank for dim in given)) if given else tuple(range(rank))


def _reduced(made: Translator, node: n.Node, function: str, dims: tuple[int, ...]) -> n.Node:
    kept = tuple(1 if dim in dims else size for dim, size in enumerate(node.shape))
    return made.add(n.Reduce(inputs=(node,), shape=kept, function=function, dimensions=dims))


def _variance(root: bool) -> Rule:
    def rule(made: Translator, call: Call, read: n.Node) -> n.Node | None:
        dims = _dims(call.get("dim"), len(read.shape))
        count = math.prod(read.shape[dim] for dim in dims)
        less = call.get("correction", call.get("unbiased", 1))
        left = count - (1 if less is None else int(less))
        if left <= 0:
            return None
        away = made.map(Function.SUB, read, _reduced(made, read, "mean", dims))
        mean = _reduced(made, made.map(Function.SQUARE, away), "mean", dims)
        found = made.map(Function.AFFINE, mean, x=count / left)
        return made.reshape(made.map(Function.SQRT, found) if root else found, call.shape)

    return _of_one(rule)


def _length(made: Translator, read: n.Node, dims: tuple[int, ...]) -> n.Node:
    return made.map(Function.SQRT, _reduced(made, made.map(Function.SQUARE, read), "sum", dims))


def _norm(made: Translator, call: Call, read: n.Node) -> n.Node | None:
    dims, order = _dims(call.get("dim"), len(read.shape)), call.get("ord", call.get("p"))
    if order in (None, 2):
        return made.reshape(_length(made, read, dims), call.shape)
    if order != 1:
        return None
    total = _reduced(made, made.map(Function.ABS, read), "sum", dims)
    return made.reshape(total, call.shape)


def _cosine(made: Translator, call: Call) -> n.Node | None:
    if not made.floats(call["x1"], call["x2"]):
        return None
    one, two = made.value(call["x1"]), made.value(call["x2"])
    if len(one.shape) != len(two.shape):
        return None
    dims, eps = (call["dim"] % len(one.shape),), float(call["eps"])
    units = [
        made.map(
            Function.DIV,
            each,
            made.map(Function.CLAMP, _length(made, each, dims), x=eps, y=math.inf),
        )
        for each in (one, two)
    ]
    total = _reduced(made, made.map(Function.MUL, *units), "sum", dims)
    return made.reshape(total, call.shape)


def _log_sum_exp(made: Translator, call: Call, read: n.Node) -> n.Node:
    dims = _dims(call["dim"], len(read.shape))
    most = _reduced(made, read, "amax", dims)
    powers = made.map(Function.EXP, made.map(Function.SUB, read, most))
    log = made.map(Function.LOG, _reduced(made, powers, "sum", dims))
    return made.reshape(made.map(Function.ADD, log, most), call.shape)


def _extreme(function: str) -> Rule:
    """The values, not the indices, of a maximum or minimum over one dimension."""

    def rule(made: Translator, call: Call, read: n.Node) -> n.Node | None:
        if call["index"] != 0 or not read.shape or "dim" not in call.arguments:
            return None
        dims = _dims(call["dim"], len(read.shape))
        return made.reshape(_reduced(made, read, function, dims), call.shape)

    return _of_one(rule)


# -- products ------------------------------------------------------------------------------------


def _einsum(made: Translator, call: Call) -> n.Node | None:
    """A product of two tensors, each letter at most once in each."""
    words = str(call["equation"]).replace(" ", "")
    inputs, arrow, out = words.partition("->")
    one, comma, two = inputs.partition(",")
    if not arrow or not comma or "," in two or "." in words or not made.floats(*call["tensors"]):
        return None
    if any(len(set(each)) != len(each) for each in (one, two, out)):
        return None
    if not set(one) ^ set(two) <= set(out):
        return None  # a letter that is summed in one tensor alone
    a, b = (made.value(each) for each in call["tensors"])
    sizes = dict(zip(one + two, a.shape + b.shape, strict=True))
    both = [letter for letter in out if letter in one and letter in two]
    summed = [letter for letter in one if letter in two and letter not in out]
    rows = [letter for letter in out if letter in one and letter not in two]
    columns = [letter for letter in out if letter in two and letter not in one]

    def matrix(node: n.Node, letters: str, *groups: list[str]) -> n.Node:
        order = [letters.index(letter) for group in (both, *groups) for letter in group]
        moved = node if order == sorted(order) else made.permute(node, order)
        return made.reshape(moved, [math.prod(sizes[one] for one in g) for g in (both, *groups)])

    left, right = matrix(a, one, rows, summed), matrix(b, two, summed, columns)
    product = made.add(
        n.Product(inputs=(left, right), shape=(left.shape[0], left.shape[1], right.shape[2]))
    )
    found = [*both, *rows, *columns]
    whole = made.reshape(product, [sizes[letter] for letter in found])
    order = [found.index(letter) for letter in out]
    return whole if order == sorted(order) else made.permute(whole, order)


def _linear_of_two(made: Translator, call: Call) -> n.Node | None:
    """A linear layer whose weight is computed."""
    bias = call["bias"]
    if not made.floats(call["input"], call["weight"]) or not (bias is None or made.floats(bias)):
        return None
    a, b = made.value(call["input"]), made.value(call["weight"])
    if len(a.shape) < 2 or len(b.shape) != 2:
        return None
    flat = made.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
    shape = (flat.shape[0], b.shape[0])
    product = made.add(n.Product(inputs=(flat, made.permute(b, (1, 0))), shape=shape))
    found = made.reshape(product, (*a.shape[:-1], b.shape[0]))
    return found if bias is None else made.map(Function.ADD, found, made.value(bias))


def _baddbmm(made: Translator, call: Call) -> n.Node | None:
    given = [call["self"], call["batch1"], call["batch2"]]
    if not made.floats(*given):
        return None
    summand, a, b = map(made.value, given)
    product = made.add(n.Product(inputs=(a, b), shape=call.shape))
    scaled = made.map(Function.AFFINE, product, x=float(call["alpha"]))
    if call["beta"] == 0:
        return scaled
    return made.map(Function.ADD, made.map(Function.AFFINE, summand, x=float(call["beta"])), scaled)


RULES: dict[str, Rule] = {
    "selu": _of_one(_selu),
    "celu": _of_one(_celu),
    "log_sigmoid": _of_one(_log_sigmoid),
    "softplus": _of_one(_softplus),
    "softshrink": _of_one(_softshrink),
    "expm1": _of_one(_expm1),
    "log1p": _of_one(_log1p),
    "pow": _power_of_number,
    "add": _with_factor(Function.ADD),
    "sub": _with_factor(Function.SUB),
    "div": _floor_of_quotient,
    "linear": _linear_of_two,
    "addcmul": _addcmul,
    "lerp": _lerp,
    "var": _variance(root=False),
    "std": _variance(root=True),
    **dict.fromkeys(("linalg_vector_norm", "norm"), _of_one(_norm)),
    "cosine_similarity": _cosine,
    "logsumexp": _of_one(_log_sum_exp),
    "max.item": _extreme("amax"),
    "min.item": _extreme("amin"),
    "einsum": _einsum,
    "baddbmm": _baddbmm,
}
