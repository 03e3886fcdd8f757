"""Fuses layers with the activations and pools after them, so that C code stores less."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .nodes import FusedLayer, in_order, with_inputs

Rewrite = Callable[[n.Node], n.Node]

BOUNDS = {Function.RELU: (0.0, math.inf), Function.RELU6: (0.0, 6.0)}


def fused(network: n.Network) -> n.Network:
    """The same network with layers of the kind `FusedLayer`."""
    for rewrite in (_function_first, _same_reshape):
        network = rewritten(network, rewrite)
    network = rewritten(network, _as_layer)
    while (joined := _joined_once(network)) is not None:
        network = joined
    return network


def _joined_once(network: n.Network) -> n.Network | None:
    """The network with one more operation in a layer; None if there is none to take in."""
    readers = Counter(read for node in network.nodes for read in node.inputs)
    readers.update(network.outputs)
    for node in network.nodes:
        made = _into_layer(node, readers)
        if made is not node:
            return _replaced(network, node, made)
    return None


def _replaced(network: n.Network, old: n.Node, new: n.Node) -> n.Network:
    made: dict[n.Node, n.Node] = {}
    for node in network.nodes:
        made[node] = (
            new if node is old else with_inputs(node, tuple(made[read] for read in node.inputs))
        )
    outputs = tuple(made[node] for node in network.outputs)
    return n.Network(in_order(outputs, network.inputs), outputs)


def rewritten(network: n.Network, rewrite: Rewrite) -> n.Network:
    """The network with every node rewritten, after those that it reads."""
    made: dict[n.Node, n.Node] = {}
    for node in network.nodes:
        made[node] = rewrite(with_inputs(node, tuple(made[read] for read in node.inputs)))
    outputs = tuple(made[node] for node in network.outputs)
    return n.Network(in_order(outputs, network.inputs), outputs)


def _function_first(node: n.Node) -> n.Node:
    """Moves a function of elements to before a change of shape."""
    if not isinstance(node, n.Map) or len(node.inputs) > 1:
        return node
    (read,) = node.inputs
    if not isinstance(read, n.Reshape):
        return node
    source = read.inputs[0]
    inner = _function_first(replace(node, inputs=(source,), shape=source.shape))
    return n.Reshape(inputs=(inner,), shape=node.shape)


def _same_reshape(node: n.Node) -> n.Node:
    """One change of shape for several; none where the shape stays."""
    if not isinstance(node, n.Reshape):
        return node
    (read,) = node.inputs
    while isinstance(read, n.Reshape):
        (read,) = read.inputs
    return read if read.shape == node.shape else replace(node, inputs=(read,))


def _as_layer(node: n.Node) -> n.Node:
    if isinstance(node, n.Linear | n.Conv):
        return FusedLayer(inputs=node.inputs, shape=node.shape, name=node.name, core=node)
    return node


def _into_layer(node: n.Node, readers: Counter[n.Node]) -> n.Node:
    """Takes a bound or a pool into the layer before, if nothing else reads that."""
    if not isinstance(node, n.Map | n.Pool) or len(node.inputs) != 1:
        return node
    (read,) = node.inputs
    if not isinstance(read, FusedLayer) or readers[read] != 1:
        return node
    if isinstance(node, n.Pool):
        return replace(read, tile=node.kernel, shape=node.shape) if _fits(node, read) else node
    bounds = (node.x, node.y) if node.function == Function.CLAMP else BOUNDS.get(node.function)
    if bounds is None or read.low != -math.inf or read.high != math.inf or bounds[0] > bounds[1]:
        return node
    return replace(read, low=bounds[0], high=bounds[1])


def _fits(pool: n.Pool, layer: FusedLayer) -> bool:
    """Whether a pool takes the largest value of tiles that lie side by side."""
    plain = pool.padding == (0, 0) and (pool.kernel == (1, 1) or pool.dilation == (1, 1))
    is_first = layer.tile == (1, 1) and isinstance(layer.core, n.Conv)
    return pool.largest and plain and is_first and pool.kernel == pool.stride
