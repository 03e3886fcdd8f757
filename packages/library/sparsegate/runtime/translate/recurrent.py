"""Rules for LSTM, GRU and plain recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator

FORWARD, BACKWARD = 0, 1


def _recurrent(cell: str) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        if call["index"] > 1 or not _is_plain(made, call):
            return None
        if call.node not in made.steps:
            found = _layers(made, call, cell)
            if found is None:
                return None
            made.steps[call.node] = found
        layers = made.steps[call.node]
        return _outputs(made, call, layers[-1]) if not call["index"] else _states(made, layers)

    return rule


def _is_plain(made: Translator, call: Call) -> bool:
    """Whether the layer begins with zeros, and its weights are constants."""
    given = call["hx"]
    states = given if isinstance(given, list | tuple) else [given]
    fixed = all(made.is_fixed(one) for one in [*states, *call["params"]])
    return fixed and made.floats(call["input"]) and not any(made.array(one).any() for one in states)


def _layers(made: Translator, call: Call, cell: str) -> list[list[n.Node]] | None:
    """The nodes of every layer, forward and backward."""
    each = 4 if call["has_biases"] else 2
    directions = 2 if call["bidirectional"] else 1
    if len(call["params"]) != call["num_layers"] * directions * each:
        return None  # projected states
    read = made.value(call["input"])
    if not call["batch_first"]:
        read = made.permute(read, (1, 0, 2))
    found = []
    for layer in range(call["num_layers"]):
        begin = layer * directions * each
        nodes = [
            _direction(made, read, call["params"][start : start + each], cell, direction)
            for direction in range(directions)
            for start in [begin + direction * each]
        ]
        found.append(nodes)
        read = _joined(made, nodes, 2)
    return found


def _direction(
    made: Translator, read: n.Node, params: Sequence[fx.Node], cell: str, direction: int
) -> n.Node:
    arrays: list[Any] = [made.array(one) for one in params]
    into, back, bias_into, bias_back = (*arrays, None, None)[:4]
    name = made.layer_of(params[0])
    sums = n.Linear(
        inputs=(read,),
        shape=(*read.shape[:2], len(into)),
        weight=into,
        bias=bias_into,
        name=name,
    )
    steps = n.Recurrent(
        inputs=(made.add(sums),),
        shape=(*read.shape[:2], back.shape[1]),
        cell=cell,
        weight=back,
        bias=bias_back,
        reverse=direction == BACKWARD,
        name=name,
    )
    return made.add(steps)


def _joined(made: Translator, nodes: Sequence[n.Node], dim: int) -> n.Node:
    if len(nodes) == 1:
        return nodes[0]
    size = sum(one.shape[dim] for one in nodes)
    shape = tuple(size if d == dim else own for d, own in enumerate(nodes[0].shape))
    return made.add(n.Join(inputs=tuple(nodes), shape=shape, dimension=dim))


def _outputs(made: Translator, call: Call, nodes: Sequence[n.Node]) -> n.Node:
    out = _joined(made, nodes, 2)
    return out if call["batch_first"] else made.permute(out, (1, 0, 2))


def _states(made: Translator, layers: Sequence[Sequence[n.Node]]) -> n.Node:
    """The state after the last step of every layer and direction."""
    found = []
    for direction, node in (pair for nodes in layers for pair in enumerate(nodes)):
        last = node.shape[1] - 1 if direction == FORWARD else 0
        shape = (node.shape[0], 1, node.shape[2])
        cut = n.Slice(inputs=(node,), shape=shape, dimension=1, start=last, step=1)
        found.append(made.permute(made.add(cut), (1, 0, 2)))
    return _joined(made, found, 0)


RULES: dict[str, Rule] = {
    f"{name}.item": _recurrent(cell)
    for name, cell in (
        ("lstm", "lstm"),
        ("gru", "gru"),
        ("rnn_tanh", "tanh"),
        ("rnn_relu", "relu"),
    )
}
