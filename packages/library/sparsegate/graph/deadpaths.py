"""Removes dead paths: weights and biases that cannot change any output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .capture import Example, capture
from .constants import Constants, any_of, read_features
from .graph import Graph
from .node import Conv, Linear, Node, Norm
from .outputs import outputs
from .units import Follow


@dataclass(frozen=True)
class Removed:
    """What `remove_dead_paths` has set to zero, by parameter."""

    weights: dict[str, int]
    """How many weights, for every parameter with two or more dimensions."""
    biases: dict[str, int]
    """How many biases, scales and shifts of BatchNorm among them, for every other parameter."""
    left: dict[str, str]
    """Layers whose units were left alone, with the operation that they meet (or `output`)."""

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
    constant moves into the biases of the layers that read it, or into the means of a BatchNorm
    behind them. That can give a bias to a unit that had none. What a convolution that pads its
    input with zeros makes of constants differs at the border: one of them then stands for all.

    """
    return removed_from(capture(model, example), example)


@torch.no_grad()
def removed_from(graph: Graph, example: Example) -> Removed:
    """What `remove_dead_paths` does, for a model that has been captured."""
    model = graph.model
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    follow = Follow(graph)
    wanted = outputs(model, example)
    Constants(follow, example).fold_()
    _clear_(follow)
    if not is_same(outputs(model, example), wanted):
        for tensors, old in ((model.named_parameters(), before), (model.named_buffers(), buffers)):
            for name, tensor in tensors:
                tensor.copy_(old[name])
        raise ValueError(
            f"{type(model).__name__} would compute something else without its dead paths, so "
            "nothing was changed; its outputs must depend on its inputs and weights alone"
        )
    return _removed(model, before, follow.left)


def is_same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    """Whether two results agree to half of a number's digits, relative to the largest."""
    return [one.shape for one in found] == [other.shape for other in wanted] and all(
        _is_close(one, other) for one, other in zip(found, wanted, strict=True) if other.numel()
    )


def _is_close(one: Tensor, other: Tensor) -> bool:
    if not other.is_floating_point():
        return torch.equal(one, other)
    largest = other.abs().nan_to_num(0, 0, 0).max().item()
    tolerance = torch.finfo(other.dtype).eps ** 0.5 * largest
    return torch.allclose(one, other, rtol=0, atol=tolerance, equal_nan=True)


def _clear_(follow: Follow) -> None:
    """Sets everything of the features that nothing reads to zero, in place."""
    live: dict[Node, Tensor] = {}
    for node in reversed(follow.graph.nodes):
        if node not in follow.axes:
            continue
        live[node] = _live(node, follow, live)
        if isinstance(node, Linear | Conv | Norm) and node in follow.plain:
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
            found |= any_of(live[reader], size)
        else:
            return torch.ones_like(found)
    return found


def _removed(model: nn.Module, before: dict[str, Tensor], left: dict[str, str]) -> Removed:
    after = dict(model.named_parameters())
    counts = {name: int(((was != 0) & (after[name] == 0)).sum()) for name, was in before.items()}
    weights = {name: count for name, count in counts.items() if before[name].ndim >= 2}
    biases = {name: count for name, count in counts.items() if name not in weights}
    return Removed(weights, biases, left)
