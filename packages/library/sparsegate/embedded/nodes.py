"""Nodes that only C code has: recurrent layers, fused layers, conversions of types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sparsegate_runtime.engine import network as n

Graph: TypeAlias = tuple[n.Node, ...]
"""Nodes in an order in which they can run."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StatefulRecurrent(n.Node):
    """One direction of one recurrent layer; it reads a sequence [time, inputs] and its first state.

    The result is [time, size]. For an LSTM a row follows: the last state of its cells.
    """

    kind: str
    """`gru`, `lstm`, `rnn_tanh` or `rnn_relu`."""
    size: int
    weight: tuple[n.Array, n.Array] = field(repr=False)
    """Of the inputs and of the state before, each [gates x size, columns]."""
    bias: tuple[n.Array | None, n.Array | None] = field(repr=False)
    backward: bool = False
    """Whether it reads from the end to the beginning."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FusedLayer(n.Node):
    """A convolution or matrix, then the largest value of tiles of its result, within two bounds."""

    core: n.Conv | n.Linear
    """Its inputs are not used: they may have been replaced in the layer."""
    tile: tuple[int, int] = (1, 1)
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class TensorScale:
    """What the 8-bit values of a tensor stand for: a value is `step` times (number - `zero`)."""

    step: float
    zero: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ToInt8(n.Node):
    """The same tensor in 8-bit values."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ToFloat(n.Node):
    """The same tensor in single precision."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network ready to be written: its operations, and the scale of each 8-bit tensor."""

    network: n.Network
    scales: Mapping[n.Node, TensorScale] = field(default_factory=dict)
    small_weights: bool = False
    """Whether weights are stored in 8 bits."""


def with_inputs(node: n.Node, inputs: tuple[n.Node, ...]) -> n.Node:
    """The node, or a copy that reads other inputs."""
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def in_order(outputs: tuple[n.Node, ...], inputs: tuple[n.Node, ...]) -> Graph:
    """The inputs, then the nodes that outputs need, each after those that it reads."""
    done: dict[n.Node, None] = dict.fromkeys(inputs)
    todo = list(reversed(outputs))
    while todo:
        node = todo[-1]
        missing = [read for read in node.inputs if read not in done]
        if missing:
            todo += reversed(missing)
        else:
            done[todo.pop()] = None
    return tuple(done)
