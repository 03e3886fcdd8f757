"""Turns skip connections into weights: the layers of a block carry its input to the last one.

    y = relu(two(relu(one(x))) + x)
    one' computes (relu(one(x)), x), and two' computes relu(two(h) + 1 * x)

A carried channel is a row with a single weight of one, which costs a sparse kernel very little.
So a network with skip connections is a chain of convolutions like any other. A ReLU on the way
must not change what is carried: it has no values below zero, as in residual networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsegate.graph import AdaptivePool, Conv, Graph, Mean, Node, Pad, Pointwise, Pool, Slice

from .chain_layer import ChainLayer
from .sparsable import Piece, Unit, flattens, is_rectifier, padding_of

MOST_NUMBERS = 2**24
"""Most weights of a layer with what it carries, zeros included; more would need much memory."""


@dataclass(frozen=True)
class Shortcut:
    """A path around a block: its source, or every second position of it, times a matrix."""

    source: Node
    nodes: tuple[Node, ...]
    stride: tuple[int, int]
    matrix: Tensor
    """The matrix, from channels to channels."""
    bias: Tensor | None = None
    piece: Piece | None = None
    """The convolution with a 1 x 1 kernel that computes the path, if there is one."""


@dataclass(frozen=True)
class Block(Unit):
    """Consecutive convolutions with a path around them, which is added at the end."""

    inner: tuple[Piece, ...]
    shortcut: Shortcut
    nodes: list[Node]
    shapes: dict[str, tuple[int, ...]]
    relu: bool

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The layers; the one on the path around comes last."""
        around = self.shortcut.piece
        return self.inner if around is None else (*self.inner, around)

    @property
    def source(self) -> Node:
        """What the block reads."""
        return self.shortcut.source

    @cached_property
    def layers(self) -> list[ChainLayer]:
        """The layers, each with rows and columns for what it carries."""
        *before, last = (piece.layer() for piece in self.inner)
        passing = [self._passing(layer, first=not index) for index, layer in enumerate(before)]
        return [*passing, self._adding(last)]

    def _passing(self, layer: ChainLayer, *, first: bool) -> ChainLayer:
        """A layer with rows that pass on what is carried."""
        carried, rows = self.shortcut.matrix.shape[1], len(layer.weight)
        weight, begin = _widened(layer, carried, num_more=carried, first=first)
        weight[(slice(rows, None), slice(begin, None), *_centre(layer))] = torch.eye(carried)
        return _with(layer, weight, None, relu=layer.relu)

    def _adding(self, layer: ChainLayer) -> ChainLayer:
        """The last layer, which adds what is carried to its outputs."""
        matrix = self.shortcut.matrix
        weight, begin = _widened(layer, matrix.shape[1], num_more=0, first=len(self.inner) == 1)
        weight[(slice(None), slice(begin, None), *_centre(layer))] += matrix
        return _with(layer, weight, self.shortcut.bias, relu=self.relu)

    @property
    def is_within_reach(self) -> bool:
        """Whether the kernels can run the block, and whether it is not too large to be worth it."""
        carried = self.shortcut.matrix.shape[1]
        for weight in (piece.weight for piece in self.inner):
            columns = weight[0].numel() + carried * prod(weight.shape[2:])
            if (len(weight) + carried) * columns >= MOST_NUMBERS:
                return False
        return all(layer.is_within_reach for layer in self.layers)


@dataclass(frozen=True)
class GlobalMean(Unit):
    """The mean of every channel, as a convolution of each channel with one large window."""

    nodes: list[Node]
    shapes: dict[str, tuple[int, ...]]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Empty: a mean has no weights."""
        return ()

    @property
    def layers(self) -> list[ChainLayer]:
        """The convolution."""
        channels, height, width = self.shapes["in"]
        window = torch.full((channels, 1, height, width), 1 / (height * width))
        return [ChainLayer(window, None, (channels, height, width), groups=channels)]


def joined(pieces: Sequence[Piece], graph: Graph) -> list[Unit]:
    """Puts pieces into blocks where possible, and adds the means that follow them."""
    blocks = [block for block in _blocks(pieces, graph) if block.is_within_reach]
    inside = {piece.name for block in blocks for piece in block.pieces}
    units: list[Unit] = [*blocks, *(piece for piece in pieces if piece.name not in inside)]
    lasts = {unit.nodes[-1] for unit in units}
    means = (mean_at(node, graph) for node in graph.nodes)
    units += [mean for mean in means if mean is not None and mean.source in lasts]
    return in_order(units, graph)


def in_order(units: Sequence[Unit], graph: Graph) -> list[Unit]:
    """The units in the order of the graph."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    return sorted(units, key=lambda unit: order[unit.nodes[0]])


def mean_at(node: Node, graph: Graph) -> GlobalMean | None:
    """The mean over all positions at this node, with the flattening after it; None for others."""
    is_mean = isinstance(node, Mean) and node.dimensions == (2, 3)
    is_mean |= isinstance(node, AdaptivePool) and node.kind == "mean" and node.dimensions == 2
    if not is_mean or len(node.input.shape) != 4 or not node.batched:
        return None
    before = node.input.shape
    if node.shape not in ((*before[:2], 1, 1), before[:2]):
        return None
    nodes = [node]
    while flattens(after := graph.only_reader(nodes[-1])):
        assert after is not None
        nodes.append(after)
    return GlobalMean(nodes, {"in": before[1:], "out": nodes[-1].shape[1:]})


def _widened(layer: ChainLayer, carried: int, *, num_more: int, first: bool) -> tuple[Tensor, int]:
    """The weights with rows and columns for carried channels, and how many were carried before."""
    rows, columns = layer.weight.shape[:2]
    more = 0 if first else carried
    weight = layer.weight.new_zeros(rows + num_more, columns + more, *layer.weight.shape[2:])
    weight[:rows, :columns] = layer.weight
    return weight, 0 if first else columns


def _with(layer: ChainLayer, weight: Tensor, more: Tensor | None, *, relu: bool) -> ChainLayer:
    """A layer with other weights, and zeros for the new biases."""
    bias = weight.new_zeros(len(weight))
    for part in (layer.bias, more):
        bias[: len(layer.weight)] += 0 if part is None else part
    in_shape = (weight.shape[1], *layer.in_shape[1:])
    return replace(layer, weight=weight, bias=bias, in_shape=in_shape, relu=relu)


def _blocks(pieces: Sequence[Piece], graph: Graph) -> Iterator[Block]:
    ends, taken = {piece.nodes[-1]: piece for piece in pieces}, set[str]()
    for node in graph.nodes:
        if not isinstance(node, Pointwise) or node.function != "add" or node.has_settings:
            continue
        block = _block_at(node, ends, graph) if len(node.inputs) == 2 else None
        if block is not None and taken.isdisjoint(piece.name for piece in block.pieces):
            taken |= {piece.name for piece in block.pieces}
            yield block


def _block_at(node: Node, ends: Mapping[Node, Piece], graph: Graph) -> Block | None:
    """The block that ends with this sum; either summand may be the path around."""
    for main, around in (node.inputs, node.inputs[::-1]):
        for shortcut in _shortcuts(around, ends, graph):
            if (block := _block(node, main, shortcut, ends, graph)) is not None:
                return block
    return None


def _block(
    node: Node, main: Node, shortcut: Shortcut, ends: Mapping[Node, Piece], graph: Graph
) -> Block | None:
    """The block that ends with this sum, if the path around begins where its layers begin."""
    inner: list[Piece] = []
    while main is not shortcut.source:
        if main not in ends or not graph.only_reader(main) or ends[main] is shortcut.piece:
            return None
        inner.insert(0, ends[main])
        main = inner[0].source
    if not inner or not _can_carry(inner, shortcut):
        return None
    nodes = {*(one for piece in inner for one in piece.nodes), *shortcut.nodes, node}
    source = shortcut.source
    if source in graph.outputs or not set(graph.readers[source]) <= nodes:
        return None
    after = graph.only_reader(node)
    relu = after is not None and is_rectifier(after)
    ordered = [one for one in graph.nodes if one in nodes or (relu and one is after)]
    shapes = {"in": inner[0].shapes["in"], "out": inner[-1].shapes["out"]}
    return Block(tuple(inner), shortcut, ordered, shapes, relu)


def _can_carry(inner: Sequence[Piece], shortcut: Shortcut) -> bool:
    """Whether all layers can pass the carried channels on unchanged."""
    stride = (1, 1)
    for piece in inner:
        conv = piece.node
        if not isinstance(conv, Conv) or conv.groups > 1 or not _has_centre(conv):
            return False
        if piece.pool > 1 or piece.pool_stride > 1 or len(piece.shapes["out"]) < 3:
            return False
        stride = (stride[0] * conv.stride[0], stride[1] * conv.stride[1])
    if stride != shortcut.stride or inner[-1].relu:
        return False
    return not any(piece.relu for piece in inner) or _is_rectified(shortcut.source)


def _is_rectified(node: Node) -> bool:
    """Whether all values of a node are zero or more."""
    while isinstance(node, AdaptivePool) or (isinstance(node, Pool) and node.kind == "max"):
        node = node.input
    return is_rectifier(node)


def _has_centre(conv: Conv) -> bool:
    """Whether one weight of the kernel reads the output's own position."""
    taps = conv.weight.read().shape[2:]
    sizes = zip(padding_of(conv), conv.dilation, taps, strict=True)
    return all(pad % step == 0 and 0 <= pad // step < size for pad, step, size in sizes)


def _centre(layer: ChainLayer) -> tuple[int, int]:
    """The kernel index of that weight."""
    return layer.padding[0] // layer.dilation[0], layer.padding[1] // layer.dilation[1]


def _shortcuts(node: Node, ends: Mapping[Node, Piece], graph: Graph) -> Iterator[Shortcut]:
    """The ways in which a summand can come from the source of the other one."""
    if node in ends and _is_matrix(ends[node]) and graph.only_reader(node):
        piece = ends[node]
        assert isinstance(piece.node, Conv)
        weight, bias = piece.folded()
        stride = (piece.node.stride[0], piece.node.stride[1])
        matrix = weight[:, :, 0, 0]
        yield Shortcut(piece.source, tuple(piece.nodes), stride, matrix, bias, piece)
    yield from _unlearned(node, graph)


def _unlearned(node: Node, graph: Graph) -> Iterator[Shortcut]:
    """The source itself, or some of its positions with channels of zeros around its own."""
    nodes: list[Node] = []
    before = after = 0
    if isinstance(node, Pad) and _adds_channels(node) and graph.only_reader(node):
        before, after = node.sides[4:]
        nodes, node = [node], node.input
    steps = {2: 1, 3: 1}
    while isinstance(node, Slice) and _leaves_out(node) and graph.only_reader(node):
        steps[node.dimension] *= node.step
        nodes, node = [*nodes, node], node.input
    if len(node.shape) == 4:
        matrix = F.pad(torch.eye(node.shape[1]), (0, 0, before, after))
        yield Shortcut(node, tuple(nodes), (steps[2], steps[3]), matrix)


def _adds_channels(pad: Pad) -> bool:
    """Whether padding adds channels of zeros to images and nothing else."""
    is_image = len(pad.shape) == 4 and len(pad.sides) == 6
    is_zero = pad.mode == "constant" and not pad.value
    return is_image and is_zero and not any(pad.sides[:4]) and min(pad.sides[4:]) >= 0


def _leaves_out(node: Slice) -> bool:
    """Whether a slice keeps every second (third, ...) line or column."""
    return node.dimension in (2, 3) and node.start == 0 and node.to_end and len(node.shape) == 4


def _is_matrix(piece: Piece) -> bool:
    """Whether a piece is a convolution with a 1 x 1 kernel and nothing more."""
    conv = piece.node
    if not isinstance(conv, Conv) or conv.groups > 1 or padding_of(conv) != (0, 0):
        return False
    plain = not piece.relu and piece.pool == piece.pool_stride == 1
    return plain and piece.weight.shape[2:] == (1, 1) and len(piece.shapes["out"]) == 3
