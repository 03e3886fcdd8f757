"""Follows units (features, channels, heads) from the layers that compute them to their readers.

A unit is an output feature of a linear layer, an output channel of a convolution, or the features
of one head of attention. On the way it may be normalized, activated, pooled, flattened, added to
the units of other layers or multiplied by them. It must not be mixed with its neighbors.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import gcd

from torch import Tensor, nn

from .axes import axis_after
from .graph import Graph
from .node import Constant, Conv, Layer, Linear, Node, Norm

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(eq=False)
class Units:
    """Units that several operations share one to one, so that all of them change together."""

    makers: list[Layer]
    """The layers that compute them; several if their results are added."""
    count: int
    """The number of units; a layer has one or several adjacent rows for each."""
    norms: list[Norm] = field(default_factory=list)
    depthwise: list[Conv] = field(default_factory=list)
    """Convolutions on the way with one group per unit."""
    readers: list[Layer] = field(default_factory=list)
    """The layers that read them, each one or several adjacent features per unit."""
    meets: str = ""
    """The operation that may mix or expose them; empty if there is none."""

    @property
    def layers(self) -> list[Layer]:
        """The layers with a row of weights for each unit."""
        return [*self.makers, *self.depthwise]


class Follow:
    """Follows the units of all layers through a graph.

    >>> import torch
    >>> from .capture import capture
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    >>> follow = Follow(capture(model, torch.zeros(1, 1, 4, 4)))
    >>> [(units.count, len(units.readers)) for units in follow.units], follow.left
    ([(4, 1)], {'3': 'output'})
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.axes: dict[Node, int] = {}
        """The dimension of the units in each node's result; nodes without units are missing."""
        self.plain = _plain(graph)
        """Layers and norms that share their tensors with no other."""
        self._units: dict[Node, Units] = {}
        for node in graph.nodes:
            self._follow(node)
        for node in self._units:
            if node in graph.outputs:
                self._block(node, "output")
            elif not graph.readers[node]:
                self._block(node, "nothing")

    @property
    def units(self) -> list[Units]:
        """The units that nothing mixes or exposes, in the graph's order."""
        return [units for units in dict.fromkeys(self._units.values()) if not units.meets]

    @property
    def left(self) -> dict[str, str]:
        """The other layers by name, with the operation that their units meet."""
        found: dict[str, str] = {}
        for layer in self.graph.layers:
            meets = self._units[layer].meets if layer in self.plain else "shared or empty"
            if meets:
                found[layer_name(layer)] = meets
        return found

    def reads_units(self, layer: Node) -> bool:
        """Whether a layer reads one or several of its features for each unit."""
        return (
            layer in self.plain
            and isinstance(layer, Linear | Conv)
            and self.axes.get(layer.input) == layer.axis
        )

    def _follow(self, node: Node) -> None:
        if isinstance(node, Linear | Conv) and node in self.plain:
            self._follow_layer(node)
        elif (axis := self._axis(node)) is not None:
            self.axes[node] = axis
            with_units = tuple(read for read in node.inputs if read in self.axes)
            units = self._joined(with_units)
            units.count = gcd(units.count, node.shape[axis])
            self._units[node] = units
            if isinstance(node, Norm):
                units.norms.append(node)
        else:
            for read in node.inputs:
                self._block(read, node.name)

    def _follow_layer(self, layer: Layer) -> None:
        self.axes[layer] = layer.axis
        source = layer.input
        if not self.reads_units(layer):
            self._block(source, layer.name)
        elif _is_depthwise(layer, source):
            self._units[layer] = self._units[source]
            self._units[layer].depthwise.append(layer)  # type: ignore[arg-type]
            return
        elif isinstance(layer, Conv) and layer.groups > 1:
            self._block(source, layer.name)
        else:
            self._units[source].readers.append(layer)
        grouped = isinstance(layer, Conv) and layer.groups > 1
        self._units[layer] = Units(
            [layer], len(layer.weight.read()), meets=layer.name if grouped else ""
        )

    def _block(self, node: Node, name: str) -> None:
        if node in self._units:
            self._units[node].meets = self._units[node].meets or name

    def _axis(self, node: Node) -> int | None:
        """The dimension of the units in a node's result, if it does not mix them."""
        axes = {read: self.axes[read] for read in node.inputs if read in self.axes}
        if not axes:
            return None
        if isinstance(node, Norm):
            axis = axes[node.input]
            return axis if axis == 1 and node in self.plain else None
        return axis_after(node, axes, self.graph)

    def _joined(self, nodes: tuple[Node, ...]) -> Units:
        """Merges the units of these nodes into one group."""
        first, *others = dict.fromkeys(self._units[node] for node in nodes)
        for other in others:
            first.makers += other.makers
            first.norms += other.norms
            first.depthwise += other.depthwise
            first.readers += other.readers
            first.meets = first.meets or other.meets
            first.count = gcd(first.count, other.count)
            for node, units in self._units.items():
                self._units[node] = first if units is other else units
        return first


def layer_name(layer: Layer) -> str:
    """The module of a layer's weight; the weight itself if it has another name."""
    owner, _, key = layer.weight.name.rpartition(".")
    return owner if key == "weight" else layer.weight.name or layer.path


def _is_depthwise(layer: Layer, source: Node) -> bool:
    channels = source.shape[layer.axis]
    return isinstance(layer, Conv) and layer.groups == channels == layer.shape[layer.axis] > 1


def _plain(graph: Graph) -> set[Node]:
    """The layers and norms whose parameters are used once, have one name, and are not empty."""
    owners = _owners(graph)
    found: set[Node] = set()
    for node in graph.nodes:
        if isinstance(node, Linear | Conv):
            _check_has_weight(graph, node)
            tensors = [node.weight, node.bias]
        elif isinstance(node, Norm):
            tensors = [node.weight, node.bias, node.mean, node.variance]
        else:
            continue
        if all(one is None or _is_own(one, owners) for one in tensors):
            found.add(node)
    return found


def _owners(graph: Graph) -> Counter[int]:
    """The number of names of each piece of memory, in the model and in its forward."""
    model = graph.model
    tensors: list[Tensor] = [one for _, one in model.named_parameters(remove_duplicate=False)]
    tensors += [one for _, one in model.named_buffers(remove_duplicate=False)]
    tensors += graph.unnamed
    return Counter(_memory(tensor) for tensor in tensors)


def _memory(tensor: Tensor) -> int:
    """The address of a tensor; 0 for all empty ones."""
    return tensor.untyped_storage().data_ptr()


def _is_own(constant: Constant, owners: Counter[int]) -> bool:
    if not constant.name or len(constant.node.users) != 1:
        return False
    tensor = constant.read()
    return bool(tensor.numel()) and owners[_memory(tensor)] == 1


def _check_has_weight(graph: Graph, layer: Layer) -> None:
    module = graph.model.get_submodule(layer.path)
    if isinstance(module, LAYERS) and "weight" not in module._parameters:
        raise ValueError(
            f"{layer.path}.weight is computed from other tensors; make it an ordinary one first: "
            "sparsegate.finish(model) for gates, torch.nn.utils.prune.remove, "
            "remove_parametrizations"
        )
