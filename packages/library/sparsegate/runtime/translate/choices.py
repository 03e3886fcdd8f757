"""Rules for operators that choose, repeat and reorder elements by the engine's moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator

MOST_PIECES = 64
"""Slices that one operator may become."""


def _source(made: Translator, call: Call) -> n.Node | None:
    source = call.get("self", call.get("input"))
    return made.value(source) if made.floats(source) else None


# -- by a condition ------------------------------------------------------------------------------


def _kept(made: Translator, value: n.Node, where: n.Node) -> n.Node:
    """The value where a condition holds, else zero."""
    if isinstance(value, n.Constant) and not value.value.any():
        return value
    return made.map(Function.KEEP, value, where)


def _chosen(made: Translator, seen: n.Node, one: n.Node, other: n.Node) -> n.Node:
    opposite = made.map(Function.AFFINE, seen, x=-1.0, y=1.0)
    return made.map(Function.ADD, _kept(made, one, seen), _kept(made, other, opposite))


def _operand(made: Translator, value: Any) -> n.Node | None:
    if isinstance(value, int | float):
        return made.fixed(np.array(float(value)))
    return made.number(value)


def _where(made: Translator, call: Call) -> n.Node | None:
    seen = made.number(call["condition"])
    one, other = _operand(made, call["self"]), _operand(made, call["other"])
    if seen is None or one is None or other is None:
        return None
    return made.expand(_chosen(made, seen, one, other), call.shape)


def _masked_fill(made: Translator, call: Call) -> n.Node | None:
    seen, value = made.number(call["mask"]), _operand(made, call["value"])
    read = _source(made, call)
    if seen is None or value is None or read is None:
        return None
    return made.expand(_chosen(made, seen, value, read), call.shape)


def _triangle(lower: bool) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        read = _source(made, call)
        if read is None:
            return None
        rows, columns = call.shape[-2:]
        diagonal = call["diagonal"]
        keep = np.tri(rows, columns, diagonal if lower else diagonal - 1)
        return made.map(Function.KEEP, read, made.fixed(keep if lower else 1 - keep))

    return rule


def _threshold(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None:
        return None
    sign = made.map(
        Function.SIGN, made.map(Function.AFFINE, read, x=1.0, y=-float(call["threshold"]))
    )
    above = made.map(Function.CLAMP, sign, x=0.0, y=1.0)
    return _chosen(made, above, read, made.fixed(np.array(float(call["value"]))))


def _filled(value: float | None) -> Rule:
    """A tensor of one number, in the shape of another."""

    def rule(made: Translator, call: Call) -> n.Node | None:
        number = call["fill_value"] if value is None else value
        if not isinstance(number, int | float):
            return None
        return made.fixed(np.full(call.shape, float(number)))

    return rule


# -- repeated ------------------------------------------------------------------------------------


def _repeat(made: Translator, call: Call) -> n.Node | None:
    """Every dimension several times, one after another."""
    read, times = _source(made, call), call.get("repeats", call.get("dims"))
    if read is None or not all(isinstance(one, int) and one > 0 for one in times):
        return None
    rank = max(len(times), len(read.shape))
    times = [1] * (rank - len(times)) + list(times)
    sizes = (1,) * (rank - len(read.shape)) + read.shape
    found = made.reshape(read, sizes)
    for dim, count in enumerate(times):
        if count > 1:
            found = _repeated(made, found, dim, count)
    return made.reshape(found, call.shape)


def _repeated(made: Translator, node: n.Node, dim: int, count: int) -> n.Node:
    before, after = node.shape[:dim], node.shape[dim:]
    one = made.reshape(node, (*before, 1, *after))
    merged = (*before, count * after[0], *after[1:])
    return made.reshape(made.expand(one, (*before, count, *after)), merged)


def _repeat_each(made: Translator, call: Call) -> n.Node | None:
    """Every position of a dimension several times."""
    read, times = _source(made, call), call["repeats"]
    if read is None or not isinstance(times, int) or not isinstance(call["dim"], int):
        return None
    dim = call["dim"] % len(read.shape)
    before, after = read.shape[: dim + 1], read.shape[dim + 1 :]
    one = made.reshape(read, (*before, 1, *after))
    return made.reshape(made.expand(one, (*before, times, *after)), call.shape)


# -- picked --------------------------------------------------------------------------------------


def _picked(made: Translator, node: n.Node, dim: int, indices: list[int]) -> n.Node | None:
    """Positions of a dimension, as slices of neighbours."""
    size, runs = node.shape[dim], [[0, 0]]
    runs.clear()
    for index in (one % size for one in indices):
        if runs and runs[-1][0] + runs[-1][1] == index:
            runs[-1][1] += 1
        else:
            runs.append([index, 1])
    if not 0 < len(runs) <= MOST_PIECES:
        return None
    return made.join([made.cut(node, dim, first, count) for first, count in runs], dim)


def _index_select(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None or not made.is_fixed(call["index"]):
        return None
    return _picked(made, read, call["dim"] % len(read.shape), made.array(call["index"]).tolist())


def _index(made: Translator, call: Call) -> n.Node | None:
    """Indices of one dimension that no input changes."""
    read = _source(made, call)
    given = [(dim, one) for dim, one in enumerate(call["indices"]) if one is not None]
    if read is None or len(given) != 1 or not made.is_fixed(given[0][1]):
        return None
    dim, which = given[0][0], made.array(given[0][1])
    if which.dtype == bool and which.ndim == 1:
        which = np.flatnonzero(which)
    found = _picked(made, read, dim, which.reshape(-1).tolist()) if which.ndim else None
    return None if found is None else made.reshape(found, call.shape)


def _flip(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    for dim in call["dims"]:
        at = dim % len(call.shape)
        if read is not None:
            read = _picked(made, read, at, list(range(call.shape[at]))[::-1])
    return read


def _pad(made: Translator, call: Call) -> n.Node | None:
    """What lies beside the edge is taken from the tensor itself."""
    read, sides, mode = _source(made, call), call["pad"], call.get("mode", "constant")
    if read is None or not all(isinstance(one, int) and one >= 0 for one in sides):
        return None
    for number, (before, after) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
        dim = len(call.shape) - 1 - number
        size = call.shape[dim] - before - after
        at = np.arange(-before, size + after)
        if mode == "reflect":
            at = size - 1 - np.abs(size - 1 - np.abs(at))
        elif mode == "replicate":
            at = np.clip(at, 0, size - 1)
        elif mode == "circular":
            at = at % size
        else:
            return None
        if read is not None and before + after:
            read = _picked(made, read, dim, at.tolist())
    return read


# -- images --------------------------------------------------------------------------------------


def _unshuffle(made: Translator, call: Call) -> n.Node | None:
    read, factor = _source(made, call), call["downscale_factor"]
    if read is None or len(read.shape) != 4:
        return None
    batch, channels, height, width = read.shape
    parts = (batch, channels, height // factor, factor, width // factor, factor)
    return made.reshape(made.permute(made.reshape(read, parts), (0, 1, 3, 5, 2, 4)), call.shape)


def _channel_shuffle(made: Translator, call: Call) -> n.Node | None:
    read, groups = _source(made, call), call["groups"]
    if read is None or len(read.shape) < 3:
        return None
    batch, channels, *rest = read.shape
    parts = (batch, groups, channels // groups, math.prod(rest))
    return made.reshape(made.permute(made.reshape(read, parts), (0, 2, 1, 3)), call.shape)


RULES: dict[str, Rule] = {
    "where": _where,
    "masked_fill": _masked_fill,
    "tril": _triangle(lower=True),
    "triu": _triangle(lower=False),
    "threshold": _threshold,
    **dict.fromkeys(("zeros_like", "new_zeros"), _filled(0.0)),
    **dict.fromkeys(("ones_like", "new_ones"), _filled(1.0)),
    **dict.fromkeys(("full_like", "new_full"), _filled(None)),
    **dict.fromkeys(("repeat", "tile"), _repeat),
    "repeat_interleave": _repeat_each,
    "index_select": _index_select,
    "index": _index,
    "flip": _flip,
    "pad": _pad,
    "pixel_unshuffle": _unshuffle,
    "channel_shuffle": _channel_shuffle,
}
