"""Translates recurrent layers for C code, which allows any first state and one sequence only."""

from __future__ import annotations

import math
from typing import Any

from torch import fx

from sparsegate.runtime import Call, Rule, Translator
from sparsegate_runtime.engine import network as n

from .nodes import StatefulRecurrent

KINDS = {"gru": 3, "lstm": 4, "rnn_tanh": 1, "rnn_relu": 1}
"""The recurrent operators, and the number of gates of each."""


def recurrent_rules() -> dict[str, Rule]:
    """Rules for one translation: the results of an operator share its layers."""
    made: dict[fx.Node, tuple[n.Node, ...] | None] = {}

    def rule(translator: Translator, call: Call) -> n.Node | None:
        if call.node not in made:
            made[call.node] = _results(translator, call)
        results = made[call.node]
        return None if results is None else translator.reshape(results[call["index"]], call.shape)

    return {f"{kind}.item": rule for kind in KINDS}


def _results(made: Translator, call: Call) -> tuple[n.Node, ...] | None:
    """The sequence and the last states; None for a form that is not supported."""
    if call.get("input") is None:  # a packed sequence
        return None
    states = call["hx"] if isinstance(call["hx"], list | tuple) else [call["hx"]]
    read = made.value(call["input"])
    count = call["num_layers"] * (2 if call["bidirectional"] else 1)
    each = len(call["params"]) // count
    is_known = each in (2, 4) and all(map(made.is_fixed, call["params"]))
    if not is_known or not made.floats(call["input"], *states) or _batch(call, read.shape) != 1:
        return None
    sequence = made.reshape(read, (math.prod(read.shape[:-1]), read.shape[-1]))
    return _layers(made, call, sequence, [made.value(one) for one in states], each)


def _batch(call: Call, shape: tuple[int, ...]) -> int:
    if len(shape) == 2:
        return 1
    return shape[0] if call["batch_first"] else shape[1]


def _layers(
    made: Translator, call: Call, sequence: n.Node, states: list[n.Node], each: int
) -> tuple[n.Node, ...]:
    directions = 2 if call["bidirectional"] else 1
    finals: list[list[n.Node]] = [[] for _ in states]
    for layer in range(call["num_layers"]):
        sides = []
        for side in range(directions):
            index = layer * directions + side
            params = call["params"][index * each : (index + 1) * each]
            first = [_row(made, state, index) for state in states]
            node = _layer(made, call, sequence, first, params, backward=side == 1)
            length = sequence.shape[0]
            sides.append(_rows(made, node, 0, length))
            last = 0 if side else length - 1
            finals[0].append(_rows(made, node, last, 1))
            if len(states) == 2:
                finals[1].append(_rows(made, node, length, 1))
        sequence = _joined(made, sides, 1) if len(sides) > 1 else sides[0]
    return (sequence, *(_joined(made, rows, 0) for rows in finals))


def _layer(
    made: Translator,
    call: Call,
    sequence: n.Node,
    first: list[n.Node],
    params: list[fx.Node],
    *,
    backward: bool,
) -> StatefulRecurrent:
    arrays = [made.array(one) for one in params]
    size = arrays[1].shape[1]
    rows = sequence.shape[0] + (1 if call.name == "lstm" else 0)
    node = StatefulRecurrent(
        inputs=(sequence, *first),
        shape=(rows, size),
        name=made.layer_of(params[0]),
        kind=call.name,
        size=size,
        weight=(arrays[0], arrays[1]),
        bias=(arrays[2], arrays[3]) if len(arrays) == 4 else (None, None),
        backward=backward,
    )
    made.add(node)
    return node


def _row(made: Translator, state: n.Node, index: int) -> n.Node:
    """The first state of one layer and direction, from a tensor [layers, (batch,) size]."""
    size = state.shape[-1]
    flat = made.reshape(state, (state.shape[0], size))
    return made.reshape(_rows(made, flat, index, 1), (size,))


def _rows(made: Translator, node: n.Node, start: int, count: int) -> n.Node:
    if count == node.shape[0]:
        return node
    shape = (count, *node.shape[1:])
    return made.add(n.Slice(inputs=(node,), shape=shape, dimension=0, start=start, step=1))


def _joined(made: Translator, nodes: list[n.Node], dimension: int) -> n.Node:
    if len(nodes) == 1:
        return nodes[0]
    shape: list[Any] = list(nodes[0].shape)
    shape[dimension] = sum(one.shape[dimension] for one in nodes)
    return made.add(n.Join(inputs=tuple(nodes), shape=tuple(shape), dimension=dimension))
