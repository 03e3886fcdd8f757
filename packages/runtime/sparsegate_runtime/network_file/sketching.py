"""Makes a sketch from the engine's network, captured with inputs of one size or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegate_runtime.engine import KeptArray
from sparsegate_runtime.engine import network as n

from .fit import DiffersError, fit
from .sizes import Shape, Size
from .sketch import OperationRecord, Sketch, Symbol


@dataclass(frozen=True, eq=False)
class Capture:
    """A network for inputs of certain sizes."""

    network: n.Network
    sizes: Mapping[str, int]
    """The value of every symbol."""


def sketch_of(
    captures: Sequence[Capture],
    symbols: Sequence[Symbol] = (),
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> Sketch:
    """The network of which these are captures.

    Args:
        captures: the same network for several sizes; one is enough without symbols.
        symbols: the sizes that differ.
        inputs: names of the inputs; their own names if none are given.
        outputs: names of the outputs; `output0` and so on if none are given.

    Raises:
        DiffersError: the captures are not the same network.
        ValueError: the engine cannot run an operation.

    """
    return _Sketching(captures, symbols).sketch(inputs, outputs)


class _Sketching:
    """Collects the records and tensors of a sketch."""

    def __init__(self, captures: Sequence[Capture], symbols: Sequence[Symbol]) -> None:
        self.networks = [capture.network for capture in captures]
        self.symbols = [symbol.name for symbol in symbols]
        self.all_symbols = symbols
        self.values = [[capture.sizes[name] for name in self.symbols] for capture in captures]
        self.records: list[OperationRecord] = []
        self.index: dict[n.Node, int] = {}
        self.tensors: dict[str, Any] = {}
        self._known: dict[Any, int] = {}
        self.most: dict[str, int] = {}

    def sketch(self, inputs: Sequence[str], outputs: Sequence[str]) -> Sketch:
        """The whole network."""
        from .sketching_nodes import RULES

        counts = {len(network.nodes) for network in self.networks}
        if len(counts) > 1:
            raise DiffersError(f"it has {' or '.join(map(str, sorted(counts)))} operations")
        for nodes in zip(*(network.nodes for network in self.networks), strict=True):
            node = nodes[0]
            if isinstance(node, n.External):
                raise ValueError(
                    f"the engine cannot run the operation {node.name}; replace it in the model"
                )
            if len({type(one) for one in nodes}) > 1:
                raise DiffersError("its operations differ")
            reads = tuple(self.index[read] for read in node.inputs)
            for other in nodes:
                if reads != tuple(self.index[read] for read in other.inputs):
                    raise DiffersError("its operations read different tensors")
            made = RULES[type(node)](self, nodes)
            if made is not None:
                self.records.append(OperationRecord(made.kind, reads, made.fields))
            self.index.update(dict.fromkeys(nodes, len(self.records) - 1))
        return self._whole(inputs, outputs)

    def _whole(self, inputs: Sequence[str], outputs: Sequence[str]) -> Sketch:
        found = [self.index[node] for node in self.networks[0].outputs]
        names = outputs or [f"output{number}" for number in range(len(found))]
        given = iter(inputs)
        records = [
            OperationRecord(one.kind, one.reads, {**one.fields, "name": next(given)})
            if one.kind == "input" and inputs
            else one
            for one in self.records
        ]
        symbols = [
            Symbol(one.name, one.least, self.most.get(one.name, one.most), one.example)
            for one in self.all_symbols
        ]
        return Sketch(symbols, records, list(zip(found, names, strict=True)), self.tensors)

    # -- what rules ask for -----------------------------------------------------------------------

    def size(
        self, nodes: Sequence[n.Node], values: Sequence[int], first: int | None = None
    ) -> Size:
        """A size that has these values, from symbols and the sizes of what the nodes read."""
        reads = [node.inputs[0].shape if node.inputs else () for node in nodes]
        variables = [[*own, *read] for own, read in zip(self.values, reads, strict=True)]
        start = None if first is None or not nodes[0].inputs else len(self.symbols) + first
        usable = start if start is not None and start < len(variables[0]) else None
        return fit(values, variables, usable)

    def shape(self, nodes: Sequence[n.Node]) -> Shape:
        """The shape of a node."""
        shapes = [node.shape for node in nodes]
        if len({len(shape) for shape in shapes}) > 1:
            raise DiffersError("its tensors have different numbers of dimensions")
        return tuple(
            self.size(nodes, values, dim) for dim, values in enumerate(zip(*shapes, strict=True))
        )

    def tensor(self, array: Any, name: str) -> int:
        """The number of a tensor of the weights, which is stored once."""
        key = _identity(array)
        if key not in self._known:
            title, number = name, 2
            while title in self.tensors:
                base, dot, last = name.rpartition(".")
                title = f"{base}_{number}{dot}{last}" if dot else f"{name}_{number}"
                number += 1
            self._known[key] = len(self.tensors)
            self.tensors[title] = array
        return self._known[key]

    def optional(self, array: Any, name: str) -> int | None:
        """The number of a tensor, or None."""
        return None if array is None else self.tensor(array, name)

    def title(self, node: n.Node) -> str:
        """The name of a layer."""
        return node.name or f"node{len(self.records)}"

    def same(self, nodes: Sequence[n.Node], *names: str) -> dict[str, Any]:
        """Settings that all captures share."""
        found = {}
        for name in names:
            values = [getattr(node, name) for node in nodes]
            if any(not _equal(values[0], value) for value in values[1:]):
                raise DiffersError(f"the {name.replace('_', ' ')} of a node differs")
            found[name] = values[0]
        return found

    def limit(self, size: int, where: Sequence[int]) -> str:
        """The symbol whose values are these, which cannot be larger than `size` now."""
        for number, name in enumerate(self.symbols):
            if [own[number] for own in self.values] == list(where):
                self.most[name] = min(size, self.most.get(name, size))
                return name
        raise DiffersError("the size of a constant follows from no size of the inputs")


def _identity(array: Any) -> Any:
    if isinstance(array, KeptArray):
        return id(array)
    found = array.__array_interface__
    return found["data"][0], found["typestr"], array.shape, array.strides


def _equal(one: Any, other: Any) -> bool:
    """Whether two settings of nodes, arrays among them, are the same."""
    if one is None or other is None:
        return one is other
    if isinstance(one, np.ndarray | KeptArray):
        return one.shape == other.shape and (
            _identity(one) == _identity(other) or bool(np.array_equal(one, other, equal_nan=True))
        )
    if isinstance(one, n.Unscaled):
        return _equal(one.weight, other.weight) and _equal(one.factors, other.factors)
    return bool(one == other)
