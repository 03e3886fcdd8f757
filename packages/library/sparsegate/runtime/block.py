"""Skip connections as weights: what goes around layers is carried through them, and the last of them adds it.

    y = relu(two(relu(one(x))) + x)     one' gives (relu(one(x)), x), two' reads both: relu(two(h) + 1 * x)

A carried channel is a row with a single weight of one, which costs a sparse kernel next to nothing, and a network with
skip connections is a chain of convolutions like any other. What is carried must not be changed by rectifiers on the
way: it is rectified itself, as it is in residual networks.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn

from .chain import Layer
from .global_mean import mean_at
from .skip import Short, shorts
from .sparsable import NOTHING, POOLS, RECTIFIERS, Piece, Unit, calls, padding_of, shape_of

IN_PLACE: tuple[Any, ...] = (operator.iadd, "add_")
SUMS: tuple[Any, ...] = (operator.add, torch.add, "add", *IN_PLACE)
MOST_NUMBERS = 2**24
"""Of a layer with what it carries, zeros included: more would take more memory than is worth it."""


@dataclass(frozen=True)
class Block(Unit):
    """Consecutive convolutions and what goes around them, added before a rectifier or none."""

    inner: tuple[Piece, ...]
    short: Short
    nodes: list[fx.Node]
    shapes: dict[str, tuple[int, ...]]
    relu: bool

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Those that go around the others last."""
        return self.inner if self.short.piece is None else (*self.inner, self.short.piece)

    @property
    def source(self) -> fx.Node:
        """What the block reads."""
        return self.short.source

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers, each with rows and columns for what is carried."""
        *before, last = (piece.layer() for piece in self.inner)
        return [
            *(self._passing(layer, first=not place) for place, layer in enumerate(before)),
            self._adding(last),
        ]

    def _passing(self, layer: Layer, *, first: bool) -> Layer:
        """A layer with more rows, which give what is carried as it came."""
        matrix, rows = self.short.matrix, len(layer.weight)
        weight, begin = _widened(layer, matrix.shape[1], num_more=matrix.shape[1], first=first)
        weight[(slice(rows, None), slice(begin, None), *_middle(layer))] = torch.eye(
            matrix.shape[1]
        )
        return _with(layer, weight, None, relu=layer.relu)

    def _adding(self, layer: Layer) -> Layer:
        """The last layer, which adds what goes around to what its rows give."""
        matrix = self.short.matrix
        weight, begin = _widened(layer, matrix.shape[1], num_more=0, first=len(self.inner) == 1)
        weight[(slice(None), slice(begin, None), *_middle(layer))] += matrix
        return _with(layer, weight, self.short.bias, relu=self.relu)

    @property
    def is_within_reach(self) -> bool:
        """Whether the kernels can run it, and it is not too large for what it gains."""
        carried = self.short.matrix.shape[1]
        sizes = [
            (len(each.module.weight) + carried, each.module.weight[0].numel())
            for each in self.inner
        ]
        taps = [prod(each.module.weight.shape[2:]) for each in self.inner]
        fits = all(
            rows * (reads + carried * n) < MOST_NUMBERS
            for (rows, reads), n in zip(sizes, taps, strict=True)
        )
        return fits and all(layer.is_within_reach for layer in self.layers)


def _widened(layer: Layer, carried: int, *, num_more: int, first: bool) -> tuple[Tensor, int]:
    """The weights with more rows, and columns for what is carried from there on; the first layer reads it anyway."""
    rows, reads = layer.weight.shape[:2]
    weight = layer.weight.new_zeros(
        rows + num_more, reads + (0 if first else carried), *layer.weight.shape[2:]
    )
    weight[:rows, :reads] = layer.weight
    return weight, 0 if first else reads


def _with(layer: Layer, weight: Tensor, more: Tensor | None, *, relu: bool) -> Layer:
    """The layer with other weights, and more bias."""
    bias = weight.new_zeros(len(weight))
    for each in (layer.bias, more):
        bias[: len(layer.weight)] += 0 if each is None else each
    return replace(
        layer, weight=weight, bias=bias, in_shape=(weight.shape[1], *layer.in_shape[1:]), relu=relu
    )


def joined(pieces: Sequence[Piece], graph: fx.GraphModule) -> list[Unit]:
    """These pieces, in blocks where they stand in one, and the means that follow them, in the graph's order."""
    blocks = [block for block in _blocks(pieces, graph) if block.is_within_reach]
    inside = {piece.name for block in blocks for piece in block.pieces}
    units: list[Unit] = [*blocks, *(piece for piece in pieces if piece.name not in inside)]
    lasts = {unit.nodes[-1] for unit in units}
    units += [
        mean
        for mean in (mean_at(node, graph) for node in graph.graph.nodes)
        if mean and mean.source in lasts
    ]
    order = {node: place for place, node in enumerate(graph.graph.nodes)}
    return sorted(units, key=lambda unit: order[unit.nodes[0]])


def _blocks(pieces: Sequence[Piece], graph: fx.GraphModule) -> Iterator[Block]:
    ends, taken = {piece.nodes[-1]: piece for piece in pieces}, set[str]()
    order = {node: place for place, node in enumerate(graph.graph.nodes)}
    for node in graph.graph.nodes:
        if not calls(node, graph, (), SUMS) or len(node.args) != 2 or node.kwargs:
            continue
        for main, around in (node.args, node.args[::-1]):
            made = (_block(node, main, short, ends, graph) for short in shorts(around, ends))
            block = next(filter(None, made), None)
            if block is not None and taken.isdisjoint(piece.name for piece in block.pieces):
                taken |= {piece.name for piece in block.pieces}
                yield replace(block, nodes=sorted(block.nodes, key=lambda each: order[each]))
                break


def _block(
    node: fx.Node, main: Any, short: Short, ends: Mapping[fx.Node, Piece], graph: fx.GraphModule
) -> Block | None:
    """The block that ends with a sum, if what goes around begins where its layers do."""
    inner: list[Piece] = []
    while main is not short.source:
        if main not in ends or len(main.users) > 1 or ends[main] is short.piece:
            return None
        inner.insert(0, ends[main])
        main = inner[0].source
    if not inner or not _can_carry(inner, short, graph):
        return None
    if node.target in IN_PLACE and node.args[0] is not inner[-1].nodes[-1] and short.piece is None:
        return None  # the source is changed, which may have other names
    nodes = [*(each for piece in inner for each in piece.nodes), *short.nodes, node]
    if not (
        set(short.source.users) <= set(nodes)
        and all(shape_of(each) == shape_of(node) for each in node.args)
    ):
        return None
    after = next(iter(node.users)) if len(node.users) == 1 else None
    relu = after is not None and calls(after, graph, (nn.ReLU,), RECTIFIERS)
    shapes = {"in": inner[0].shapes["in"], "out": inner[-1].shapes["out"]}
    return Block(tuple(inner), short, [*nodes, *([after] if relu and after else [])], shapes, relu)


def _can_carry(inner: Sequence[Piece], short: Short, graph: fx.GraphModule) -> bool:
    """Whether all layers can pass on what they do not read, unchanged, to the last."""
    for piece in inner:
        conv = piece.module
        if (
            not isinstance(conv, nn.Conv2d)
            or conv.groups > 1
            or piece.pool > 1
            or piece.pool_stride > 1
        ):
            return False
        if not _has_middle(conv) or len(piece.shapes["out"]) < 3:
            return False
    strides = [piece.module.stride for piece in inner if isinstance(piece.module, nn.Conv2d)]
    if tuple(map(prod, zip(*strides, strict=True))) != short.stride or inner[-1].relu:
        return False
    return not any(piece.relu for piece in inner) or _is_rectified(short.source, graph)


def _is_rectified(node: Any, graph: fx.GraphModule) -> bool:
    """Whether nothing below zero can be in it."""
    while calls(node, graph, (nn.MaxPool2d, *NOTHING), POOLS):
        node = node.all_input_nodes[0]  # which may be given by name
    return calls(node, graph, (nn.ReLU,), RECTIFIERS)


def _has_middle(conv: nn.Conv2d) -> bool:
    """Whether a tap of the convolution reads the place itself, where it steps by one."""
    sizes = zip(padding_of(conv) or (-1, -1), conv.dilation, conv.kernel_size, strict=True)
    return all(pad % dilation == 0 and 0 <= pad // dilation < taps for pad, dilation, taps in sizes)


def _middle(layer: Layer) -> tuple[int, int]:
    """That tap."""
    return layer.padding[0] // layer.dilation[0], layer.padding[1] // layer.dilation[1]
