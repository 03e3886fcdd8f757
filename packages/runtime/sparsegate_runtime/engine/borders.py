"""Places lines and images of a network in memory, with zeros between them for convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from .network import (
    Conv,
    Input,
    LayerNorm,
    Linear,
    Map,
    Network,
    Node,
    Permute,
    Pool,
    TransposedConv,
    Upsample,
)


@dataclass
class Grid:
    """Distances that images of one size share: of lines, and of images in lines."""

    line: int = 0
    lines: int = 0
    lead: int = 0
    """Positions before the first image that must be zero."""

    def include(self, shape: tuple[int, ...], around: tuple[int, int] = (0, 0)) -> None:
        """Makes room for images of this shape with this many zeros around them."""
        height, width = shape[-2:]
        self.line = max(self.line, width + around[1])
        self.lines = max(self.lines, height + around[0])


class Borders:
    """The grid of every tensor of images, and which of them need zeros around the images."""

    def __init__(self, network: Network, *, side_by_side: bool = False) -> None:
        self._parent: dict[Node, Node] = {node: node for node in network.nodes}
        self._grid: dict[Node, Grid] = {}
        self._side_by_side = side_by_side
        self.clean: set[Node] = set()
        self._values: dict[Node, set[float]] = {}
        for node in network.nodes:
            self._link(node)
        for node in network.nodes:
            self._include(node)
        for node in reversed(network.nodes):
            if node in self.clean and isinstance(node, Permute):
                self.clean.add(node.inputs[0])
                self._values.setdefault(node.inputs[0], set()).update(self._values.get(node, ()))

    def value(self, node: Node) -> float | None:
        """What the border of a tensor must hold; None if nothing reads it."""
        if node not in self.clean:
            return None
        wanted = self._values.get(node, {0.0})
        return 0.0 if 0.0 in wanted else next(iter(wanted), 0.0)

    def grid(self, node: Node) -> Grid:
        """The distances for images of this tensor."""
        return self._grid.setdefault(self._root(node), Grid())

    def add(self, node: Node) -> None:
        """Takes in a node that the planner made, on a grid shared with nothing else."""
        self._parent[node] = node
        source = node.inputs[0]
        around = [max(0, *sides) for sides in node.padding] if isinstance(node, Conv) else [0, 0]
        reach = _reach(node) if isinstance(node, Conv) else (0, 0)
        self.grid(node).include(node.shape, reach)
        self.grid(node).include(source.shape, (around[0], around[1]))
        if any(around):
            self.grid(node).lead = around[0] + 1

    def _root(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def _join(self, one: Node, other: Node) -> None:
        self._parent[self._root(one)] = self._root(other)

    def _link(self, node: Node) -> None:
        same = isinstance(node, Linear | LayerNorm | Permute)
        if same or (isinstance(node, Conv) and node.stride == (1, 1)):
            self._join(node, node.inputs[0])
        elif isinstance(node, Map):
            for read in node.inputs:
                if read.shape == node.shape:
                    self._join(node, read)

    def _include(self, node: Node) -> None:
        if self._side_by_side:
            self._include_side_by_side(node)
        else:
            self._include_in_lines(node)

    def _include_side_by_side(self, node: Node) -> None:
        """Every convolution and pool reads its input where it lies."""
        if isinstance(node, Conv | Pool | Input) and len(node.shape) == 4:
            self.grid(node).include(node.shape)
        if isinstance(node, Conv | Pool):
            read = node.inputs[0]
            lines, pixels = (_beyond(node, axis) for axis in (0, 1))
            grid = self.grid(read)
            grid.include(read.shape, (lines, pixels))
            if lines or pixels:
                self.clean.add(read)
                largest = isinstance(node, Pool) and node.largest
                self._values.setdefault(read, set()).add(-inf if largest else 0.0)
                grid.lead = max(grid.lead, lines + 1)

    def _include_in_lines(self, node: Node) -> None:
        if isinstance(node, Conv | Pool):
            self.grid(node).include(node.shape, _reach(node))
        if isinstance(node, Conv) and node.stride == (1, 1):
            read = node.inputs[0]
            around = (max(0, *node.padding[0]), max(0, *node.padding[1]))
            self.grid(read).include(read.shape, around)
            if any(around):
                self.clean.add(read)
                grid = self.grid(read)
                grid.lead = max(grid.lead, around[0] + 1)
        if isinstance(node, TransposedConv):
            read = node.inputs[0]
            self.grid(read).include(read.shape)
        if isinstance(node, Upsample | Input) and len(node.shape) == 4:
            self.grid(node).include(node.shape)


def _beyond(node: Conv | Pool, axis: int) -> int:
    """How far beyond the edges of images a convolution or pool reads."""
    taps = node.weight.shape[2:] if isinstance(node, Conv) else node.kernel
    pad = node.padding[axis]
    before = pad[0] if isinstance(pad, tuple) else pad
    last = (node.shape[2 + axis] - 1) * node.stride[axis] + (taps[axis] - 1) * node.dilation[axis]
    after = last - before - (node.inputs[0].shape[2 + axis] - 1)
    return int(max(0, before, after))


def reads_in_place(node: Conv) -> bool:
    """Whether a convolution reads its neighbors where they lie."""
    return node.stride == (1, 1) and min(map(min, node.padding)) >= 0


def _reach(node: Conv | Pool) -> tuple[int, int]:
    """Lines and pixels from the first to the last tap, in steps of the stride."""
    if isinstance(node, Conv) and reads_in_place(node):
        return (0, 0)
    taps = node.weight.shape[2:] if isinstance(node, Conv) else node.kernel
    lines, pixels = (
        (size - 1) * gap // step
        for size, gap, step in zip(taps, node.dilation, node.stride, strict=True)
    )
    return lines, pixels
