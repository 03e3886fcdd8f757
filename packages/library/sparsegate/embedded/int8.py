"""Chooses the tensors that are computed in 8 bits, and their scales from typical inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .nodes import FusedLayer, Prepared, TensorScale, ToFloat, ToInt8, in_order, with_inputs
from .reference import values_of

SAME = (n.Reshape, n.Permute, n.Slice, n.Expand, n.Pad, n.Pool, n.Upsample)
"""Operations whose results have the scale of what they read."""
IN_INTEGERS = (Function.ADD, Function.SUB, Function.MUL)
"""Functions of two tensors that are computed in integers."""
MOST_EXAMPLES = 500
"""Inputs that are run to choose scales; more of them change little."""
Ranges = dict[n.Node, tuple[float, float]]


def quantised(network: n.Network, examples: Sequence[tuple[Tensor, ...]]) -> Prepared:
    """A network in 8 bits where integers can compute it, in single precision elsewhere.

    Layers, functions of elements, pools and moves of elements are computed in 8 bits. Outputs,
    norms, softmax, attention and recurrent layers are computed in single precision; the weights of
    all layers are stored in 8 bits, each row with a scale.

    Args:
        network: what `fused` made.
        examples: typical inputs. The scales of tensors are chosen for their values.

    """
    ranges = ranges_of(network, examples[:MOST_EXAMPLES])
    made = _Rewriting(ranges, _in_floats(network))
    nodes: dict[n.Node, n.Node] = {}
    for node in network.nodes:
        nodes[node] = made.rewritten(node, tuple(nodes[read] for read in node.inputs))
    outputs = tuple(made.in_floats(nodes[node]) for node in network.outputs)
    found = n.Network(in_order(outputs, network.inputs), outputs)
    scales = {node: made.scales[node] for node in found.nodes if node in made.scales}
    return Prepared(found, scales, small_weights=True)


def ranges_of(network: n.Network, examples: Sequence[tuple[Tensor, ...]]) -> Ranges:
    """The least and the largest value of every tensor, and zero."""
    found: Ranges = {}
    for inputs in examples:
        for node, value in values_of(network, inputs).items():
            if value.dtype == torch.float32 and value.numel():
                low, high = found.get(node, (0.0, 0.0))
                finite = value[value.isfinite()]
                if finite.numel():
                    found[node] = min(low, float(finite.min())), max(high, float(finite.max()))
    floats = [node for node in network.inputs if node.kind == "float32"]
    if floats and all(found.get(node, (0.0, 0.0)) == (0.0, 0.0) for node in floats):
        raise ValueError(
            "int8 chooses its scales by typical inputs, got zeros only; pass calibrate="
        )
    return found


def scale_of(low: float, high: float) -> TensorScale:
    """The scale of values between two bounds, one of which may be zero.

    >>> scale_of(0.0, 255.0), scale_of(-127.5, 127.5)
    (TensorScale(step=1.0, zero=-128), TensorScale(step=1.0, zero=0))
    """
    step = (high - low) / 255 or 1.0
    return TensorScale(step, max(-128, min(127, round(-128 - low / step))))


def _may_be_int8(node: n.Node) -> bool:
    """Whether integers can compute an operation from tensors in 8 bits."""
    if isinstance(node, n.Map):
        return len(node.inputs) == 1 or node.function in IN_INTEGERS
    return isinstance(node, (FusedLayer, n.Join, n.Reduce, *SAME))


def _in_floats(network: n.Network) -> set[n.Node]:
    """Tensors that only operations in single precision read, and the outputs."""
    readers: dict[n.Node, list[n.Node]] = {node: [] for node in network.nodes}
    for node in network.nodes:
        for read in node.inputs:
            readers[read].append(node)
    found: set[n.Node] = set(network.outputs)
    for node in reversed(network.nodes):
        if all(_reads_floats(reader, found) for reader in readers[node]):
            found.add(node)
    return found


def _reads_floats(reader: n.Node, in_floats: set[n.Node]) -> bool:
    """Whether an operation reads single precision; layers never do."""
    if isinstance(reader, FusedLayer):
        return False
    return reader in in_floats or not _may_be_int8(reader)


@dataclass(eq=False)
class _Rewriting:
    """The network as far as it has been rewritten."""

    ranges: Ranges
    floats: set[n.Node]
    """Tensors of the given network that stay in single precision."""
    scales: dict[n.Node, TensorScale] = field(default_factory=dict)
    _small: dict[n.Node, n.Node] = field(default_factory=dict)
    _large: dict[n.Node, n.Node] = field(default_factory=dict)
    _given: dict[n.Node, n.Node] = field(default_factory=dict)

    def rewritten(self, node: n.Node, inputs: tuple[n.Node, ...]) -> n.Node:
        """The node in one of both types, and conversions of what it reads."""
        made = self._typed(node, inputs)
        self._given[made] = node
        return made

    def _typed(self, node: n.Node, inputs: tuple[n.Node, ...]) -> n.Node:
        if isinstance(node, n.Input | n.Constant):
            return node
        if isinstance(node, FusedLayer):
            reads = tuple(map(self.in_int8, inputs))
            return with_inputs(node, reads) if node in self.floats else self._scaled(node, reads)
        has_int8 = any(read in self.scales for read in inputs)
        if node in self.floats or not _may_be_int8(node) or not has_int8:
            return with_inputs(node, tuple(map(self.in_floats, inputs)))
        return self._scaled(node, tuple(map(self.in_int8, inputs)))

    def _scaled(self, node: n.Node, inputs: tuple[n.Node, ...]) -> n.Node:
        """The node with a result of 8 bits."""
        made = replace(node, inputs=inputs)
        keeps = isinstance(node, SAME) or (
            isinstance(node, n.Reduce) and node.function in ("amax", "amin")
        )
        self.scales[made] = self.scales[inputs[0]] if keeps else self._scale(node)
        return made

    def _scale(self, node: n.Node) -> TensorScale:
        return scale_of(*self.ranges.get(node, (0.0, 0.0)))

    def in_int8(self, node: n.Node) -> n.Node:
        """The tensor in 8 bits."""
        if node in self.scales:
            return node
        if node not in self._small:
            made = (
                replace(node)
                if isinstance(node, n.Constant)
                else ToInt8(inputs=(node,), shape=node.shape, name=node.name)
            )
            self.scales[made] = self._scale(self._given.get(node, node))
            self._small[node] = made
        return self._small[node]

    def in_floats(self, node: n.Node) -> n.Node:
        """The tensor in single precision."""
        if node not in self.scales:
            return node
        if node not in self._large:
            self._large[node] = ToFloat(inputs=(node,), shape=node.shape, name=node.name)
        return self._large[node]
