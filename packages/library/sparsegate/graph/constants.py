"""Features that are the same for every input, and how they move into the layers that read them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils import _pytree

from .capture import Example, arguments_of
from .node import AdaptivePool, Constant, Conv, Layer, Linear, Mean, Node, Norm, Other, Pad, Pool
from .units import Follow

EVEN = 1e-5
"""Relative difference of values that are the same but for rounding."""


def read_features(layer: Layer) -> Tensor:
    """The inputs that a layer has weights for, as a mask."""
    return (_blocks(layer) != 0).any(dim=3).any(dim=1).flatten()


def any_of(mask: Tensor, size: int) -> Tensor:
    """A mask over more or fewer features for every unit; of several, one is enough."""
    if size >= len(mask):
        return mask.repeat_interleave(size // len(mask))
    return mask.view(size, -1).any(1)


def all_of(mask: Tensor, size: int) -> Tensor:
    """A mask over more or fewer features for every unit; of several, all count."""
    return ~any_of(~mask, size)


class Constants:
    """The features that are the same for every input, from the first layer on."""

    def __init__(self, follow: Follow, example: Example) -> None:
        self.follow, self.graph = follow, follow.graph
        self.masks: dict[Node, Tensor] = {}
        """Which features of a node are constant."""
        self.values: dict[Node, Tensor] = {}
        """A result of the node that is right for those features."""
        self.given = self._given(example)
        """For the example, what operations on units read that has no units."""

    def _given(self, example: Example) -> dict[Node, Tensor]:
        axes = self.follow.axes
        nodes = [node for node in axes if not isinstance(node, Linear | Conv)]
        wanted = [read for node in nodes for read in node.inputs if read not in axes]
        if not wanted:
            return {}
        args, kwargs = arguments_of(example)
        leaves = [*_pytree.tree_leaves(args), *_pytree.tree_leaves(kwargs)]
        return self.graph.values(list(dict.fromkeys(wanted)), *leaves)

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
        flat = value.movedim(layer.axis, 0).reshape(len(mask), -1)
        low, high = flat.aminmax(dim=1)
        values = flat[:, 0]
        takes = mask & values.isfinite() & read_features(layer)
        takes &= high - low <= EVEN * flat.abs().amax(1)
        if _is_padded(layer):
            self._merge_(layer, takes & (values != 0), values)
        adds = self._adds(layer)
        takes &= (values == 0) | (adds is not None and not _is_padded(layer))
        if adds is not None:
            bias, sign = adds
            bias.read().add_(sign * _contribution(layer, takes, values))
        layer.weight.read().masked_fill_(_over_weights(layer, takes), 0)

    def _adds(self, layer: Layer) -> tuple[Constant, int] | None:
        """What can take a constant that is added to the layer's result, and with which sign."""
        if layer.bias is not None:
            return layer.bias, 1
        after = self.graph.only_reader(layer)
        if isinstance(after, Norm) and after in self.follow.plain and layer.axis == 1:
            return after.mean, -1
        return None

    def _merge_(self, layer: Layer, takes: Tensor, values: Tensor) -> None:
        """Lets one constant input stand for all, where borders make a bias impossible."""
        if isinstance(layer, Linear) or layer.groups > 1 or int(takes.sum()) < 2:
            return
        weight = layer.weight.read()
        one = int(torch.where(takes, values.abs(), 0).argmax())
        amounts = torch.where(takes, values, 0).double()
        total = torch.einsum("oi...,i->o...", weight.detach().double(), amounts) / amounts[one]
        weight[:, takes] = 0
        weight[:, one] = total.to(weight.dtype)

    def _start(self, layer: Layer) -> None:
        """A unit without weights gives its bias."""
        weight = layer.weight.read()
        bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.read()
        self.masks[layer] = (weight == 0).flatten(1).all(1)
        sizes = [-1 if axis == layer.axis else 1 for axis in range(len(layer.shape))]
        self.values[layer] = bias.detach().view(sizes).expand(layer.shape)

    def _carry(self, node: Node) -> None:
        """A feature stays constant if all that it is computed from are."""
        if isinstance(node, Other) and node.function == "scaled_dot_product_attention":
            self._attend(node)
            return
        before = {read: self.values.get(read, self.given.get(read)) for read in node.inputs}
        value = self.graph.apply(node, before)  # type: ignore[arg-type]
        size = value.shape[self.follow.axes[node]]
        known = [read for read in node.inputs if read in self.masks]
        mask = torch.stack([all_of(self.masks[read], size) for read in known]).all(0)
        if len(known) < len(node.inputs):
            mask = torch.zeros_like(mask)
        if getattr(node, "function", "") == "mul":
            mask, value = self._with_zeros(node, mask, value)
        if isinstance(node, Norm) and node.weight is not None:
            mask = mask | (node.weight.read() == 0)
        if isinstance(node, Pool | AdaptivePool | Mean | Pad):
            mask = mask & self._is_even(node)
        self.masks[node], self.values[node] = mask, value

    def _with_zeros(self, node: Node, mask: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """A product is zero where one of its factors is, whatever the others are."""
        axis = self.follow.axes[node]
        zero = torch.zeros_like(mask)
        for read in node.inputs:
            if read in self.masks:
                flat = self.values[read].movedim(self.follow.axes[read], 0)
                zeros = self.masks[read] & (flat.reshape(len(flat), -1) == 0).all(1)
                zero |= all_of(zeros, len(mask))
        sizes = [-1 if one == axis else 1 for one in range(value.ndim)]
        return mask | zero, value.masked_fill(zero.view(sizes), 0)

    def _attend(self, node: Other) -> None:
        """Attention gives a mean of values: a constant if all positions have the same value."""
        values = node.inputs[2]
        value, axis = self.values[values], self.follow.axes[values]
        size = node.shape[self.follow.axes[node]]
        flat = value.movedim(-2, 0).flatten(1)
        even = (flat.amax(0) - flat.amin(0) <= EVEN * flat.abs().amax(0)).all()
        mask = all_of(self.masks[values], size)
        self.masks[node] = mask if even else torch.zeros_like(mask)
        value = value.narrow(-2, 0, 1).repeat_interleave(size // value.shape[axis], axis)
        self.values[node] = value.expand(node.shape)

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


def _is_padded(layer: Layer) -> bool:
    """Whether a layer makes something else of a constant at the border."""
    return isinstance(layer, Conv) and any(map(any, layer.padding))


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
