"""Translates the operators of a captured model one by one into nodes of the engine, by rules."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from sparsegate.graph import Graph
from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call, by_name, call_of, shape_of

VIEWS = frozenset({"view", "reshape", "flatten", "unsqueeze", "squeeze", "_unsafe_view"})
"""Operators that give the same elements in another shape, whatever their type."""
KINDS = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool"}
"""The types that the engine reads; tensors of others stay with torch."""


Rule = Callable[["Translator", Call], n.Node | None]
"""A rule: returns the node of a call, or None if the engine cannot compute it."""


class Translator:
    """Translates a graph into a network of the engine."""

    def __init__(self, graph: Graph, rules: dict[str, Rule]) -> None:
        self.graph, self.rules = graph, rules
        self.nodes: dict[fx.Node, n.Node] = {}
        self.made: list[n.Node] = []
        self.steps: dict[fx.Node, list[list[n.Node]]] = {}
        """The recurrent layers, for operators that have several results."""
        self._constants: dict[fx.Node, n.Node] = {}
        self._inputs = 0
        self._numbers: Translator | None = None

    def network(self) -> n.Network:
        """Translates the whole graph."""
        for node in self.graph.operations.nodes:
            if node.op == "output" or node in self.graph.constants:
                continue
            if node.op == "placeholder":
                self._input(node)
            else:
                self.nodes[node] = self._read(node)
        outputs = tuple(self.value(one) for one in self._returned())
        return n.Network(n.needed(self.made, outputs), outputs)

    def _returned(self) -> list[fx.Node]:
        return [one for one in self.graph.returned if isinstance(one, fx.Node)]

    def _input(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            kind = KINDS.get(value.dtype, str(value.dtype))
            made = n.Input(shape=shape_of(value), index=self._inputs, kind=kind, name=node.name)
            self.nodes[node] = self.add(made)
        self._inputs += 1

    def add(self, node: n.Node) -> n.Node:
        """Adds a node to the network."""
        self.made.append(node)
        return node

    # -- operators --------------------------------------------------------------------------------

    def _read(self, node: fx.Node) -> n.Node:
        if node.target is operator.getitem:
            return self._item(node)
        call = call_of(node)
        if call is None:
            return self.by_torch(node)
        rule = self.rules.get(call.name)
        made = None
        if call.dtype == torch.float32:
            made = rule(self, call) if rule else None
        elif call.dtype in KINDS and call.name in VIEWS:
            made = self._view_of_input(call)
        return self.by_torch(node) if made is None else made

    def _view_of_input(self, call: Call) -> n.Node | None:
        """A view of an input, such as indices, which the engine reads in place."""
        source = call.get("self")
        if not isinstance(source, fx.Node) or source in self.constants:
            return None
        read = self.value(source)
        inner = read.inputs[0] if isinstance(read, n.Reshape) else read
        if not isinstance(inner, n.Input) or source.meta["val"].dtype != call.dtype:
            return None
        return self.reshape(read, call.shape)

    def _item(self, node: fx.Node) -> n.Node:
        """One result of an operator that has several."""
        source, index = node.args
        assert isinstance(source, fx.Node)
        value = node.meta.get("val")
        schema = getattr(source.target, "_schema", None)
        if schema is not None and isinstance(value, Tensor) and value.dtype == torch.float32:
            name = schema.name.partition("::")[2]
            arguments = {**by_name(source, schema), "index": index}
            rule = self.rules.get(f"{name}.item")
            call = Call(source, name, arguments, shape_of(value), value.dtype)
            made = rule(self, call) if rule else None
            if made is not None:
                return made
        return self.by_torch(node)

    def by_torch(self, node: fx.Node) -> n.Node:
        """A node for an operator that torch runs."""
        value = node.meta.get("val")
        reads = [one for one in dict.fromkeys(node.all_input_nodes) if one not in self.constants]
        inputs = tuple(self.value(one) for one in reads)
        shape = shape_of(value) if isinstance(value, Tensor) else ()
        kind = KINDS.get(value.dtype, str(value.dtype)) if isinstance(value, Tensor) else "tuple"
        run = partial(_run, node, tuple(reads), self.graph.constant, self.constants)
        return self.add(
            n.External(inputs=inputs, shape=shape, run=run, kind=kind, name=str(node.target))
        )

    @property
    def constants(self) -> frozenset[fx.Node]:
        """The values that no input changes."""
        return self.graph.constants

    # -- values -----------------------------------------------------------------------------------

    def value(self, node: fx.Node) -> n.Node:
        """The node of a value; constants become nodes when they are first read."""
        if node in self.nodes:
            return self.nodes[node]
        if node not in self._constants:
            array = self.array(node)
            made = n.Constant(shape=array.shape, value=array, name=node.name)
            self._constants[node] = self.add(made)
        return self._constants[node]

    def is_fixed(self, value: Any) -> bool:
        """Whether a value is a tensor that no input changes."""
        return isinstance(value, fx.Node) and value in self.constants

    def array(self, node: fx.Node | None) -> NDArray[Any]:
        """The values of a constant."""
        assert node is not None
        value = self.graph.constant(node)
        return np.ascontiguousarray(value.detach().cpu().numpy())

    def fixed(self, value: NDArray[Any], name: str = "") -> n.Node:
        """A node for a constant that a rule computes."""
        array = np.ascontiguousarray(value, np.float32)
        return self.add(n.Constant(shape=array.shape, value=array, name=name))

    def floats(self, *values: Any) -> bool:
        """Whether all values are tensors of the type that the engine computes with."""
        return all(
            isinstance(one, fx.Node)
            and isinstance(one.meta.get("val"), Tensor)
            and one.meta["val"].dtype == torch.float32
            for one in values
        )

    def number(self, node: Any) -> n.Node | None:
        """A tensor of any type as floats; None if the engine cannot compute them."""
        from .numbers import Numbers

        if not isinstance(node, fx.Node):
            return None
        if self._numbers is None:
            self._numbers = Numbers(self)
        return self._numbers.number(node)

    def layer_of(self, node: fx.Node | None) -> str:
        """The name of the layer that owns a parameter."""
        if node is None:
            return ""
        found = self.graph.name_of(node)
        return found.rpartition(".")[0]

    def reshape(self, node: n.Node, shape: Sequence[int]) -> n.Node:
        """Reshapes; keeps dimensions apart that are split again later."""
        if isinstance(node, n.Reshape):
            return self.reshape(node.inputs[0], shape)
        if node.shape == tuple(shape):
            return node
        if isinstance(node, n.Permute) and isinstance(node.inputs[0], n.Reshape):
            split = self._split_before(node, node.inputs[0], tuple(shape))
            if split is not None:
                return split
        return self.add(n.Reshape(inputs=(node,), shape=tuple(shape)))

    def _split_before(
        self, moved: n.Permute, merged: n.Reshape, shape: tuple[int, ...]
    ) -> n.Node | None:
        """Splits dimensions before they are moved, as attention does after merging heads."""
        parts = _parts(moved.shape, shape)
        if parts is None or len(shape) <= len(moved.shape):
            return None
        by_dim = [parts[moved.dimensions.index(dim)] for dim in range(len(merged.shape))]
        first = [sum(map(len, by_dim[:dim])) for dim in range(len(by_dim))]
        fine = self.reshape(merged.inputs[0], [size for sizes in by_dim for size in sizes])
        order = [first[dim] + at for dim in moved.dimensions for at in range(len(by_dim[dim]))]
        return self.reshape(self.permute(fine, order), shape)

    def map(self, function: Function, *inputs: n.Node, x: float = 0.0, y: float = 0.0) -> n.Node:
        """A function of elements; two inputs are broadcast."""
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        return self.add(n.Map(inputs=inputs, shape=shape, function=function, x=x, y=y))

    def cut(self, node: n.Node, dim: int, start: int, size: int) -> n.Node:
        """Some positions of a dimension."""
        shape = tuple(size if d == dim else own for d, own in enumerate(node.shape))
        if shape == node.shape:
            return node
        return self.add(n.Slice(inputs=(node,), shape=shape, dimension=dim, start=start, step=1))

    def join(self, nodes: Sequence[n.Node], dim: int) -> n.Node:
        """Tensors one after another."""
        size = sum(one.shape[dim] for one in nodes)
        shape = tuple(size if d == dim else own for d, own in enumerate(nodes[0].shape))
        if len(nodes) == 1:
            return nodes[0]
        return self.add(n.Join(inputs=tuple(nodes), shape=shape, dimension=dim))

    def expand(self, node: n.Node, shape: Sequence[int]) -> n.Node:
        """Dimensions of size one repeated."""
        if node.shape == tuple(shape):
            return node
        return self.add(n.Expand(inputs=(node,), shape=tuple(shape)))

    def permute(self, node: n.Node, dims: Sequence[int]) -> n.Node:
        """Permutes dimensions."""
        shape = tuple(node.shape[dim] for dim in dims)
        return self.add(n.Permute(inputs=(node,), shape=shape, dimensions=tuple(dims)))


def translated(graph: Graph, more: Mapping[str, Rule] | None = None) -> tuple[n.Network, list[str]]:
    """Translates a graph; also returns the operators left to torch; `more` adds rules."""
    from .choices import RULES as CHOICES
    from .composed import RULES as COMPOSED
    from .layers import RULES as LAYERS
    from .maps import RULES as MAPS
    from .moves import RULES as MOVES
    from .pools import RULES as POOLS
    from .recurrent import RULES as RECURRENT

    rules: dict[str, Rule] = {}
    for table in (LAYERS, MAPS, MOVES, POOLS, RECURRENT, CHOICES, COMPOSED):
        for name, rule in table.items():
            rules[name] = _either(rules[name], rule) if name in rules else rule
    made = Translator(graph, {**rules, **(more or {})})
    network = made.network()
    torchs = [one.name for one in network.nodes if isinstance(one, n.External)]
    return network, [name for name in torchs if name != str(operator.getitem)]


def _either(first: Rule, second: Rule) -> Rule:
    """The first rule, or the second one for calls that the first cannot compute."""

    def rule(made: Translator, call: Call) -> n.Node | None:
        found = first(made, call)
        return second(made, call) if found is None else found

    return rule


def _run(
    node: fx.Node,
    reads: tuple[fx.Node, ...],
    constant: Callable[[fx.Node], Any],
    constants: frozenset[fx.Node],
    *values: Any,
) -> Any:
    """What torch computes from these values."""
    given = dict(zip(reads, values, strict=True))

    def value(read: fx.Node) -> Any:
        return constant(read) if read in constants else given[read]

    args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), value)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _parts(shape: tuple[int, ...], finer: tuple[int, ...]) -> list[list[int]] | None:
    """The dimensions that each dimension is split into; None if a new one spans several.

    >>> _parts((6, 5), (2, 3, 5)), _parts((6, 5), (3, 10))
    ([[2, 3], [5]], None)
    """
    left = list(finer)
    found: list[list[int]] = []
    for size in shape:
        own: list[int] = []
        while left and math.prod(own) < size:
            own.append(left.pop(0))
        if math.prod(own) != size:
            return None
        found.append(own or [1])
    return found if not left else None
