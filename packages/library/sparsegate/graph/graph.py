"""A captured model: its operations, who reads each of them, and a module that runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn

from .node import Conv, Layer, Linear, Node

Swap: TypeAlias = tuple[nn.Module, Node]
"""A module, and the node whose result it reads."""

COPYING = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
    torch.ops.aten.view_as.default: torch.ops.aten.reshape_as.default,
}
"""Operators that refuse tensors in some layouts, each with one that takes any."""


@dataclass(frozen=True, eq=False)
class Graph:
    """What a model computes in eval, operation by operation."""

    model: nn.Module
    nodes: tuple[Node, ...]
    """Inputs and operations on activations, in an order in which they can run."""
    outputs: tuple[Node | None, ...]
    """The tensors that the model gives; None for what is no activation."""
    operations: fx.Graph
    """The same as ATen operators, constants and all, as torch.export wrote it."""
    returned: tuple[Any, ...]
    """The outputs there."""
    constant: Callable[[fx.Node], Any]
    """The present value of a parameter, a buffer, or what is computed from them alone."""
    constants: frozenset[fx.Node]
    names: Mapping[str, str]
    """The parameter or buffer of each placeholder in `operations`; empty for other constants."""
    changed: tuple[str, ...]
    """The buffers that the forward of the model changes; the graph leaves them alone."""
    batches: range
    """The batch sizes for which the graph holds."""
    structure: Any
    """How the model arranges its outputs, for torch.utils._pytree."""
    unnamed: list[Tensor]
    """The tensors that the forward reads and the model does not name."""
    node_of: Mapping[fx.Node, Node]
    """The node that holds each value of `operations`."""

    @cached_property
    def readers(self) -> dict[Node, tuple[Node, ...]]:
        """The nodes that read each node; a node that reads another twice counts twice."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for read in node.inputs:
                found[read].append(node)
        return {node: tuple(readers) for node, readers in found.items()}

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The linear and convolutional layers."""
        return tuple(node for node in self.nodes if isinstance(node, Linear | Conv))

    def name_of(self, constant: fx.Node) -> str:
        """The first parameter or buffer that a constant is computed from."""
        if constant.op == "placeholder":
            return self.names.get(constant.name, "")
        found = (self.name_of(read) for read in constant.all_input_nodes)
        return next((name for name in found if name), "")

    def only_reader(self, node: Node) -> Node | None:
        """The node that reads this one, if nothing else does."""
        readers = self.readers[node]
        return readers[0] if len(readers) == 1 and node not in self.outputs else None

    def apply(self, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
        """What an operation makes of these values of the nodes that it reads."""

        def value(read: fx.Node) -> Any:
            if read in self.node_of and self.node_of[read] in values:
                return values[self.node_of[read]]
            return self.constant(read) if read in self.constants else run(read)

        def run(operation: fx.Node) -> Any:
            args, kwargs = fx.map_arg((operation.args, dict(operation.kwargs)), value)
            target: Any = COPYING.get(operation.target, operation.target)  # type: ignore[call-overload]
            return target(*args, **kwargs)

        made: Tensor = run(node.origin)
        return made

    @torch.no_grad()
    def values(self, wanted: Collection[Node], *inputs: Tensor) -> dict[Node, Tensor]:
        """What these nodes give when the inputs go through; everything else is let go early."""
        kept = {node.origin: node for node in wanted}
        found: dict[fx.Node, Any] = {}
        given = iter(inputs)
        uses = {node: len(node.users) for node in self.operations.nodes}
        for node in self.operations.nodes:
            if node.op == "output" or node in self.constants:
                continue
            found[node] = next(given) if node.op == "placeholder" else self._run(node, found)
            for read in node.all_input_nodes:
                uses[read] -= 1
                if not uses[read] and read not in kept:
                    found.pop(read, None)
        return {node: found[origin] for origin, node in kept.items()}

    def _run(self, node: fx.Node, found: Mapping[fx.Node, Any]) -> Any:
        def value(read: fx.Node) -> Any:
            return self.constant(read) if read in self.constants else found[read]

        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), value)
        target: Any = COPYING.get(node.target, node.target)  # type: ignore[call-overload]
        return target(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the model, in the structure that the model gives them."""
        from torch.utils import _pytree

        leaves = [*_pytree.tree_leaves(args), *_pytree.tree_leaves(kwargs)]
        outputs = self.runnable()(*leaves)
        single = len(self.returned) == 1
        return _pytree.tree_unflatten([outputs] if single else list(outputs), self.structure)

    def runnable(
        self, swaps: Mapping[Node, Swap] | None = None, *, channels_last: bool = False
    ) -> fx.GraphModule:
        """A module that runs the operations by torch; it takes and gives the tensors alone.

        Args:
            swaps: nodes whose results come from modules instead; what only they needed is left out.
            channels_last: run convolutions of images with their channels last, which is often
                faster; the outputs are laid out as usual.

        """
        return _Runnable(self, swaps or {}, channels_last).module()


class _Runnable:
    """Writes a graph again: constants become attributes, swapped nodes calls of modules."""

    def __init__(self, graph: Graph, swaps: Mapping[Node, Swap], channels_last: bool) -> None:
        self.graph, self.made = graph, fx.Graph()
        self.swaps = {node.origin: swap for node, swap in swaps.items()}
        self.values: dict[fx.Node, fx.Node] = {}
        self.attributes: dict[str, Any] = {}
        self.any_layout = channels_last or bool(swaps)
        images = [node for node in graph.layers if isinstance(node, Conv) and len(node.shape) == 4]
        self.channels_last = {node.weight.node for node in images if channels_last}

    def module(self) -> fx.GraphModule:
        """The whole graph."""
        needed = self._needed()
        for node in self.graph.operations.nodes:
            if node in self.swaps:
                self.values[node] = self._called(*self.swaps[node])
            elif node not in self.graph.constants and (node.op == "placeholder" or node in needed):
                self.values[node] = self._written(node)
        outputs = [self._output(value) for value in self.graph.returned]
        self.made.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        return fx.GraphModule(self.attributes, self.made)

    def _needed(self) -> set[fx.Node]:
        """What the outputs depend on, with the swaps."""
        found: set[fx.Node] = set()
        todo = [value for value in self.graph.returned if isinstance(value, fx.Node)]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                swap = self.swaps.get(node)
                todo += node.all_input_nodes if swap is None else [swap[1].origin]
        return found

    def _written(self, node: fx.Node) -> fx.Node:
        if node.op == "placeholder":
            return self.made.placeholder(node.name)
        made = self.made.node_copy(node, self._value)
        if self.any_layout:
            made.target = COPYING.get(made.target, made.target)  # type: ignore[call-overload]
        return made

    def _called(self, module: nn.Module, read: Node) -> fx.Node:
        name = f"sparse_{sum(key.startswith('sparse_') for key in self.attributes)}"
        self.attributes[name] = module
        return self.made.call_module(name, (self._value(read.origin),))

    def _value(self, node: fx.Node) -> fx.Node:
        """What the new graph has for a node; a constant becomes an attribute when it is read."""
        if node not in self.values:
            value = self.graph.constant(node)
            if node in self.channels_last:
                value = value.detach().contiguous(memory_format=torch.channels_last)
            name = f"constant_{len(self.attributes)}"
            self.attributes[name] = value
            self.values[node] = self.made.get_attr(name)
        return self.values[node]

    def _output(self, value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return value
        made = self._value(value)
        is_tensor = isinstance(value.meta.get("val"), Tensor)
        if self.any_layout and is_tensor:
            return self.made.call_function(torch.ops.aten.contiguous.default, (made,))
        return made
