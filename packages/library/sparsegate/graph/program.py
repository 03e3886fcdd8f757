"""Reads what torch.export wrote: which values are constant, and a typed node for every other."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

from .aten import VARYING, AtenCall, read_call
from .graph import Graph
from .node import Constant, Input, Node

if TYPE_CHECKING:
    from torch.export import ExportedProgram

MOST = 2**31
"""More inputs than any batch has."""


class CapturedProgram:
    """An exported program without in-place operations."""

    def __init__(self, model: nn.Module, program: ExportedProgram) -> None:
        self.program, self.values = program, _Values(model, program)
        self.nodes: dict[fx.Node, Node] = {}
        """The node with the value of each operation; one without effect has its input's."""
        self.kept: list[Node] = []
        self.constants: set[fx.Node] = set()
        self.batch: Any = None
        """The size of the first dimension of the first input; a symbol if any will do."""

    def graph(self, changed: tuple[str, ...]) -> Graph:
        """The whole program as a graph."""
        *operations, end = self.program.graph.nodes
        for node in operations:
            self._read(node)
        kinds = [spec.kind.name for spec in self.program.graph_signature.output_specs]
        given: Any = end.args[0]
        returned = [one for one, kind in zip(given, kinds, strict=True) if kind == "USER_OUTPUT"]
        return Graph(
            model=self.values.model,
            nodes=tuple(self.kept),
            outputs=tuple(self.nodes.get(value) for value in returned),
            operations=self.program.graph,
            returned=tuple(returned),
            constant=self.values.of,
            constants=frozenset(self.constants),
            names=self.values.names,
            changed=changed,
            batches=self._batches(),
            structure=self.program.call_spec.out_spec,
            unnamed=list(self.values.unnamed.values()),
            node_of=self.nodes,
        )

    def _batches(self) -> range:
        if self.batch is None:
            return range(MOST)
        symbol = self.batch.node.expr if isinstance(self.batch, torch.SymInt) else None
        limits = self.program.range_constraints.get(symbol)
        if limits is None:  # the forward fixes the number
            return range(_number(self.batch), _number(self.batch) + 1)
        return range(int(limits.lower), int(limits.upper) + 1 if limits.upper < MOST else MOST)

    def _read(self, node: fx.Node) -> None:
        if node.target is operator.getitem and not node.users:
            return  # one of several results that nothing reads
        if node.op == "placeholder" and node.name not in self.values.names:
            self._read_input(node)
        elif node.op in ("placeholder", "get_attr") or self._is_constant(node):
            self.constants.add(node)
        elif isinstance(node.meta.get("val"), Tensor):
            self.nodes[node] = found = read_call(self._call(node))
            if found.origin is node:
                self.kept.append(found)

    def _read_input(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            return
        if not self.kept:
            self.batch = value.shape[0] if value.ndim else None
        self.nodes[node] = Input(**self._facts(node), inputs=())
        self.kept.append(self.nodes[node])

    def _is_constant(self, node: fx.Node) -> bool:
        """Whether neither an input nor a random number has a part in a value."""
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return False
        return all(read in self.constants for read in node.all_input_nodes)

    def _call(self, node: fx.Node) -> AtenCall:
        """An operation with its arguments; one of several results is read as a call of its own."""
        source: Any = node.args[0] if node.target is operator.getitem else node
        index: Any = node.args[1] if node.target is operator.getitem else 0
        schema = getattr(source.target, "_schema", None)
        name = schema.name.partition("::")[2] if schema else str(source.name)
        inputs = [self.nodes[read] for read in _reads(source) if read in self.nodes]
        return AtenCall(
            operator=name,
            index=index,
            arguments=fx.map_arg(_by_name(source, schema), self._argument) if schema else {},
            facts=self._facts(node) | {"inputs": tuple(inputs)},
        )

    def _argument(self, node: fx.Node) -> Any:
        if node in self.nodes:
            return self.nodes[node]
        if node in self.constants:
            name = self.values.names.get(node.name) or ""
            return Constant(name, node, partial(self.values.of, node))
        return VARYING

    def _facts(self, node: fx.Node) -> dict[str, Any]:
        """What every node says of itself."""
        value: Tensor = node.meta["val"]
        first, *others = value.shape if value.ndim else (None,)
        stack = list(node.meta.get("nn_module_stack", {"": ("", None)}).values())
        return {
            "name": node.name,
            "shape": tuple(_number(size) for size in value.shape),
            "dtype": value.dtype,
            "batched": str(first) == str(self.batch)
            and all(isinstance(size, int) for size in others),
            "path": str(stack[-1][0]).partition("@")[0],
            "origin": node,
        }


class _Values:
    """Looks up parameters, buffers and constants, and computes what is made of them alone."""

    def __init__(self, model: nn.Module, program: ExportedProgram) -> None:
        signature = program.graph_signature
        owned = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        fixed = signature.inputs_to_lifted_tensor_constants
        self.model, self._module = model, program.graph_module
        self.unnamed = {name: program.constants[key] for name, key in fixed.items()}
        self.names: dict[str, str] = {**owned, **dict.fromkeys(self.unnamed, "")}
        """The parameter or buffer of a placeholder; empty for other constants."""

    @torch.no_grad()
    def of(self, node: fx.Node) -> Any:
        """The present value of a constant."""
        if node.op == "get_attr":
            return getattr(self._module, str(node.target))
        if node.op == "placeholder":
            return self.unnamed[node.name] if node.name in self.unnamed else self._owned(node.name)
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), self.of)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _owned(self, name: str) -> Tensor:
        owner, _, key = self.names[name].rpartition(".")
        found: Tensor = getattr(self.model.get_submodule(owner), key)
        return found


def _by_name(node: fx.Node, schema: Any) -> dict[str, Any]:
    """The arguments of an operator, those left out too."""
    defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
    return {**defaults, **given, **node.kwargs}


def _reads(node: fx.Node) -> list[fx.Node]:
    """The values that a node reads, each as often as it reads it."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, dict(node.kwargs)), lambda read: found.append(read))
    return found


def _number(size: Any) -> int:
    """A size for the example."""
    return size if isinstance(size, int) else int(size.node.hint)
