"""Dead paths: weights and biases that cannot change any output, because a unit next to them died."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .capture import Example, arguments_of, capture, evaluating
from .graph import Graph
from .node import AdaptivePool, Conv, Layer, Linear, Mean, Node, Norm, Pad, Pool
from .units import Follow


@dataclass(frozen=True)
class Removed:
    """What `remove_dead_paths` has set to zero, by parameter."""

    weights: dict[str, int]
    """How many weights, for every parameter with two or more dimensions."""
    biases: dict[str, int]
    """How many biases, scales and shifts of BatchNorm among them, for every other parameter."""
    left: dict[str, str]
    """Layers whose units were left alone, with the operation that they meet: `output` for the last."""

    @property
    def num_weights(self) -> int:
        """Weights in all."""
        return sum(self.weights.values())

    @property
    def num_biases(self) -> int:
        """Biases in all."""
        return sum(self.biases.values())


def remove_dead_paths(model: nn.Module, example: Example) -> Removed:
    """Sets the weights and biases of dead units to zero, in place; the model computes the same.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    >>> _ = model[0].bias.data.fill_(3.0)  # unit 1 reads nothing, so it is always 3
    >>> _ = model[2].weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> _ = model[2].bias.data.fill_(0.5)
    >>> removed = remove_dead_paths(model, torch.zeros(1, 2))
    >>> removed.num_weights, removed.num_biases
    (1, 1)
    >>> model[2].weight.data, model[2].bias.data  # 6.5 = 0.5 + 2 * 3
    (tensor([[1., 0.]]), tensor([6.5000]))

    Args:
        model: any model that torch.export can capture, without gates.
        example: a batch of its inputs; a tuple if it takes several, a dict by keyword.

    Returns:
        How many weights and biases of each parameter were set to zero.

    A unit (a feature of a Linear, a channel of a Conv) is dead if no layer reads it. It is also
    dead if it reads nothing or its BatchNorm has a scale of zero: then it is constant, and the
    constant moves into the biases of the layers that read it. That can give a bias to a unit that
    had none. A constant stays where a reader has no bias, or pads its input with zeros.

    """
    return removed_from(capture(model, example), example)


@torch.no_grad()
def removed_from(graph: Graph, example: Example) -> Removed:
    """What `remove_dead_paths` does, for a model that has been captured."""
    model = graph.model
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    follow = Follow(graph)
    wanted = outputs(model, example)
    _Constants(follow).fold_()
    _clear_(follow)
    if not is_same(outputs(model, example), wanted):
        for name, parameter in model.named_parameters():
            parameter.copy_(before[name])
        raise ValueError(
            f"{type(model).__name__} would compute something else without its dead paths, so "
            "nothing was changed; its outputs must depend on its inputs and weights alone"
        )
    return _removed(model, before, follow.left)


def outputs(model: nn.Module, example: Example) -> list[Tensor]:
    """The tensors that a model in eval gives for the example, always with the same random numbers."""
    args, kwargs = arguments_of(example)
    with torch.random.fork_rng(devices=()), evaluating(model):
        return _tensors(model(*args, **kwargs))


def is_same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    """Whether two results agree to half of a number's digits, relative to the largest."""
    return [one.shape for one in found] == [other.shape for other in wanted] and all(
        _is_close(one, other) for one, other in zip(found, wanted, strict=True) if other.numel()
    )


def read_features(layer: Layer) -> Tensor:
    """The inputs that a layer has weights for, as a mask."""
    return (_blocks(layer) != 0).any(dim=3).any(dim=1).flatten()


def _is_close(one: Tensor, other: Tensor) -> bool:
    if not other.is_floating_point():
        return torch.equal(one, other)
    tolerance = torch.finfo(other.dtype).eps ** 0.5 * other.abs().max().item()
    return torch.allclose(one, other, rtol=0, atol=tolerance)


def _tensors(value: object) -> list[Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


class _Constants:
    """The features that are the same for every input and position, from the first layer on."""

    def __init__(self, follow: Follow) -> None:
        self.follow, self.graph = follow, follow.graph
        self.masks: dict[Node, Tensor] = {}
        """Which features of a node are constant."""
        self.values: dict[Node, Tensor] = {}
        """A result of the node that is right for those features."""

    def fold_(self) -> None:
        """Moves all constants that layers read into their biases, in place."""
        for node in self.graph.nodes:
            if node not in self.follow.axes:
                continue
            if isinstance(node, Linear | Conv):
                if self.follow.reads_units(node):
                    self._fold_into_(node)
                self._start(node)
            else:
                self._carry(node)

    def _fold_into_(self, layer: Layer) -> None:
        mask, value = self.masks[layer.input], self.values[layer.input]
        values = value.movedim(layer.axis, 0).reshape(len(mask), -1)[:, 0]
        takes = mask & values.isfinite() & read_features(layer)
        takes &= (values == 0) | _takes_constants(layer)
        if layer.bias is not None:
            layer.bias.read().add_(_contribution(layer, takes, values))
        layer.weight.read().masked_fill_(_over_weights(layer, takes), 0)

    def _start(self, layer: Layer) -> None:
        """A unit without weights gives its bias."""
        weight = layer.weight.read()
        bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.read()
        self.masks[layer] = (weight == 0).flatten(1).all(1)
        sizes = [-1 if axis == layer.axis else 1 for axis in range(len(layer.shape))]
        self.values[layer] = bias.detach().view(sizes).expand(layer.shape)

    def _carry(self, node: Node) -> None:
        """A feature stays constant if all that it is computed from are."""
        before = {read: self.values[read] for read in node.inputs}
        value = self.graph.apply(node, before)
        size = value.shape[self.follow.axes[node]]
        masks = [self.masks[read] for read in node.inputs]
        mask = torch.stack([one.repeat_interleave(size // len(one)) for one in masks]).all(0)
        if isinstance(node, Norm) and node.weight is not None:
            mask = mask | (node.weight.read() == 0)
        if isinstance(node, Pool | AdaptivePool | Mean | Pad):
            mask = mask & self._is_even(node)
        self.masks[node], self.values[node] = mask, value

    def _is_even(self, node: Node) -> Tensor:
        """Features with the same value everywhere, before and after: padding makes borders."""
        exact = self.values[node.input].double()  # the rounding of a long mean is no border
        axes = (self.follow.axes[node.input], self.follow.axes[node])
        both = (exact, self.graph.apply(node, {node.input: exact}))
        features = [
            value.movedim(axis, 0).reshape(value.shape[axis], -1)
            for value, axis in zip(both, axes, strict=True)
        ]
        low, high = torch.cat(features, dim=1).aminmax(dim=1)
        return high - low <= 1e-9 * high.abs()


def _clear_(follow: Follow) -> None:
    """Sets everything of the features that nothing reads to zero, in place."""
    live: dict[Node, Tensor] = {}
    for node in reversed(follow.graph.nodes):
        if node not in follow.axes:
            continue
        live[node] = _live(node, follow, live)
        if isinstance(node, Linear | Conv | Norm):
            for constant in (node.weight, node.bias):
                if constant is not None:
                    constant.read()[~live[node]] = 0


def _live(node: Node, follow: Follow, live: dict[Node, Tensor]) -> Tensor:
    """The features of a node that another operation reads, as a mask."""
    size = node.shape[follow.axes[node]]
    found = torch.zeros(size, dtype=torch.bool)
    readers = follow.graph.readers[node]
    if node in follow.graph.outputs or not readers:
        return ~found
    for reader in readers:
        if isinstance(reader, Linear | Conv) and follow.reads_units(reader):
            found |= read_features(reader).cpu()
        elif reader in live and not isinstance(reader, Linear | Conv):
            found |= live[reader].view(size, -1).any(1)
        else:
            return torch.ones_like(found)
    return found


def _takes_constants(layer: Layer) -> bool:
    """Whether a layer makes the same of a constant everywhere, and has a bias for it."""
    unpadded = isinstance(layer, Linear) or not any(map(any, layer.padding))
    return layer.bias is not None and unpadded


def _groups(layer: Layer) -> int:
    return 1 if isinstance(layer, Linear) else layer.groups


def _blocks(layer: Layer) -> Tensor:
    """The weight as groups x outputs x inputs x taps."""
    weight, groups = layer.weight.read().detach(), _groups(layer)
    return weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)


def _contribution(layer: Layer, takes: Tensor, values: Tensor) -> Tensor:
    """What the taken inputs, at their values, add to every output."""
    groups = _groups(layer)
    columns = takes.view(groups, -1).any(0)
    amounts = torch.where(takes, values, 0).view(groups, -1)[:, columns].double()
    return (_blocks(layer)[:, :, columns].double().sum(3) @ amounts.unsqueeze(2)).flatten()


def _over_weights(layer: Layer, takes: Tensor) -> Tensor:
    """A mask over inputs as one over weights."""
    outputs, inputs, *taps = layer.weight.read().shape
    groups = _groups(layer)
    mask = takes.view(groups, 1, inputs).expand(groups, outputs // groups, inputs)
    return mask.reshape(outputs, inputs, *[1 for _ in taps])


def _removed(model: nn.Module, before: dict[str, Tensor], left: dict[str, str]) -> Removed:
    after = dict(model.named_parameters())
    counts = {name: int(((was != 0) & (after[name] == 0)).sum()) for name, was in before.items()}
    weights = {name: count for name, count in counts.items() if before[name].ndim >= 2}
    biases = {name: count for name, count in counts.items() if name not in weights}
    return Removed(weights, biases, left)
