"""What has been read of an ONNX graph: constants as arrays, and the engine's nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

Value: TypeAlias = n.Node | NDArray[Any]


@dataclass(frozen=True)
class OnnxOperation:
    """A node of ONNX, with its attributes by name."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]

    def get(self, name: str, other: Any = None) -> Any:
        """An attribute, or something else if it is not there."""
        return self.attributes.get(name, other)

    def refused(self, why: str) -> ValueError:
        """An error that names the operation."""
        about = f" ({self.name})" if self.name else ""
        return ValueError(f"{self.kind}{about} cannot be converted: {why}")


@dataclass(eq=False)
class OnnxReading:
    """The values of a graph as far as it has been read."""

    values: dict[str, Value]
    made: list[n.Node] = field(default_factory=list)
    _constants: dict[str, n.Node] = field(default_factory=dict)

    def add(self, node: n.Node) -> n.Node:
        """Takes a node into the network."""
        self.made.append(node)
        return node

    def value(self, operation: OnnxOperation, index: int) -> Value | None:
        """An input; None if it is left out."""
        if index >= len(operation.inputs) or not operation.inputs[index]:
            return None
        name = operation.inputs[index]
        if name not in self.values:
            raise operation.refused(f"nothing computes its input {name}")
        return self.values[name]

    def array(self, operation: OnnxOperation, index: int) -> NDArray[Any] | None:
        """A constant input; None if it is left out."""
        found = self.value(operation, index)
        if isinstance(found, n.Node):
            raise operation.refused(f"its input {operation.inputs[index]} is not a constant")
        return found

    def numbers(self, operation: OnnxOperation, index: int, attribute: str) -> list[int] | None:
        """Integers, which older files have in an attribute."""
        if attribute in operation.attributes:
            return [int(one) for one in np.atleast_1d(operation.attributes[attribute])]
        found = self.array(operation, index)
        return None if found is None else [int(one) for one in found.reshape(-1)]

    def node(self, operation: OnnxOperation, index: int = 0) -> n.Node:
        """An input as a node."""
        found = self.value(operation, index)
        if found is None:
            raise operation.refused(f"it has no input {index}")
        return found if isinstance(found, n.Node) else self.constant(found)

    def constant(self, array: NDArray[Any]) -> n.Node:
        """A constant as a node."""
        single = np.ascontiguousarray(array, np.float32)
        return self.add(n.Constant(shape=single.shape, value=single))

    def reshape(self, node: n.Node, shape: Sequence[int]) -> n.Node:
        """The same elements in another shape."""
        if node.shape == tuple(shape):
            return node
        return self.add(n.Reshape(inputs=(node,), shape=tuple(map(int, shape))))

    def permute(self, node: n.Node, order: Sequence[int]) -> n.Node:
        """The dimensions in another order."""
        shape = tuple(node.shape[dim] for dim in order)
        return self.add(n.Permute(inputs=(node,), shape=shape, dimensions=tuple(order)))


Rule: TypeAlias = Callable[[OnnxReading, OnnxOperation], Value]
