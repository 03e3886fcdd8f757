"""Computes truth values and integers, such as masks, as floats: 0 and 1, and whole numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import fx

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call, call_of
from .moves import RULES as MOVES
from .translator import Translator

WHOLE = 2**24
"""Up to here, floats hold all integers; a larger one never becomes equal to a smaller one."""
CASTS = ("to", "_to_copy", "bool", "long", "int", "float", "type_as")
Logic = Callable[["Numbers", n.Node, n.Node], n.Node]


class Numbers(Translator):
    """The same translation, whose values of every type are floats."""

    def __init__(self, made: Translator) -> None:
        super().__init__(made.graph, made.rules)
        self.made, self._plain = made.made, made
        self._known: dict[fx.Node, n.Node | None] = {}

    def value(self, node: fx.Node) -> n.Node:
        """The node of a value that `floats` has said to be one."""
        found = self.number(node)
        assert found is not None
        return found

    def floats(self, *values: object) -> bool:
        """Whether all values can be computed as floats."""
        return all(isinstance(one, fx.Node) and self.number(one) is not None for one in values)

    def number(self, node: fx.Node) -> n.Node | None:
        """The floats of a value; None if the engine cannot compute them."""
        if node not in self._known:
            self._known[node] = self._number(node)
        return self._known[node]

    def _number(self, node: fx.Node) -> n.Node | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        if value.dtype == torch.float32:
            return self._plain.value(node)
        if value.dtype not in (torch.int64, torch.bool):
            return None
        if node in self.constants:
            return self._constant(node)
        if node.op == "placeholder":
            return self.add(n.Cast(inputs=(self._plain.value(node),), shape=tuple(value.shape)))
        call = call_of(node)
        rule = RULES.get(call.name) if call else None
        return rule(self, call) if rule and call else None

    def _constant(self, node: fx.Node) -> n.Node | None:
        array = self.array(node)
        if array.size and np.abs(array.astype(np.float64)).max() >= WHOLE:
            return None
        return self.fixed(array)

    def opposite(self, node: n.Node) -> n.Node:
        """One minus a truth value."""
        return self.map(Function.AFFINE, node, x=-1.0, y=1.0)

    def differs(self, node: n.Node) -> n.Node:
        """Whether numbers are not zero."""
        return self.map(Function.ABS, self.map(Function.SIGN, node))


def _cast(made: Numbers, call: Call) -> n.Node | None:
    """Another type of the same numbers; a truth value is whether they are not zero."""
    source = call.get("self")
    read = made.number(source) if isinstance(source, fx.Node) else None
    if read is None or read.shape != call.shape:
        return None
    before = source.meta["val"].dtype
    if call.dtype == torch.bool and before != torch.bool:
        return made.differs(read)
    return None if before == torch.float32 else read


def _both(combine: Logic, *, only_truth: bool) -> Callable[[Numbers, Call], n.Node | None]:
    """An operator on two values, of which the second may be a number."""

    def rule(made: Numbers, call: Call) -> n.Node | None:
        one, other = (_operand(made, call[name]) for name in ("self", "other"))
        types = [
            each.meta["val"].dtype
            for each in (call["self"], call["other"])
            if isinstance(each, fx.Node)
        ]
        if one is None or other is None or call.dtype != torch.bool:
            return None
        if only_truth and any(dtype != torch.bool for dtype in types):
            return None
        if types.count(torch.int64) > 1 and not any(
            made.is_fixed(call[name]) for name in ("self", "other")
        ):
            return None  # the difference of two large integers is not exact
        if torch.float32 in types and combine not in (_above, _below):
            return None  # a NaN would count as equal
        return combine(made, one, other)

    return rule


def _operand(made: Numbers, value: object) -> n.Node | None:
    if isinstance(value, fx.Node):
        return made.number(value)
    if isinstance(value, int | float) and (isinstance(value, float) or abs(value) < WHOLE):
        return made.fixed(np.array(value))
    return None


def _above(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    sign = made.map(Function.SIGN, made.map(Function.SUB, one, other))
    return made.map(Function.CLAMP, sign, x=0.0, y=1.0)


def _below(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return _above(made, other, one)


def _not_above(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return made.opposite(_above(made, one, other))


def _not_below(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return made.opposite(_above(made, other, one))


def _unequal(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return made.differs(made.map(Function.SUB, one, other))


def _equal(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return made.opposite(_unequal(made, one, other))


def _both_hold(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    for sure, rest in ((one, other), (other, one)):
        if isinstance(sure, n.Constant) and sure.value.all():
            return made.expand(rest, np.broadcast_shapes(one.shape, other.shape))
    return made.map(Function.MUL, one, other)


def _either_holds(made: Numbers, one: n.Node, other: n.Node) -> n.Node:
    return made.map(Function.MAX, one, other)


def _not(made: Numbers, call: Call) -> n.Node | None:
    read = made.number(call["self"])
    is_truth = call["self"].meta["val"].dtype == torch.bool
    return made.opposite(read) if read is not None and is_truth else None


def _index(made: Numbers, call: Call) -> n.Node | None:
    """All elements, picked by ranges of indices, as transformers' masks are."""
    read, indices = made.number(call["self"]), call["indices"]
    if read is None or not all(made.is_fixed(one) for one in indices):
        return None
    if len(indices) != len(read.shape):
        return None
    where = np.broadcast_arrays(*(made.array(one) for one in indices))
    picked = np.arange(np.prod(read.shape)).reshape(read.shape)[tuple(where)]
    if picked.shape != call.shape or not np.array_equal(picked.reshape(-1), np.arange(picked.size)):
        return None
    return made.reshape(read, call.shape) if picked.size == np.prod(read.shape) else None


def _compare(combine: Logic) -> Callable[[Numbers, Call], n.Node | None]:
    return _both(combine, only_truth=False)


def _logic(combine: Logic) -> Callable[[Numbers, Call], n.Node | None]:
    return _both(combine, only_truth=True)


RULES: dict[str, Callable[[Numbers, Call], n.Node | None]] = {
    **{name: rule for name, rule in MOVES.items() if name not in ("pad", "constant_pad_nd")},
    **dict.fromkeys(CASTS, _cast),
    "index": _index,
    "gt": _compare(_above),
    "lt": _compare(_below),
    "ge": _compare(_not_below),
    "le": _compare(_not_above),
    "ne": _compare(_unequal),
    "eq": _compare(_equal),
    **dict.fromkeys(("logical_and", "__and__", "bitwise_and"), _logic(_both_hold)),
    **dict.fromkeys(("logical_or", "__or__", "bitwise_or"), _logic(_either_holds)),
    **dict.fromkeys(("logical_xor", "__xor__", "bitwise_xor"), _logic(_unequal)),
    **dict.fromkeys(("logical_not", "bitwise_not", "__invert__"), _not),
}
