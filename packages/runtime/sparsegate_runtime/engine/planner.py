"""Lays out the tensors of a network and lowers its nodes to operations of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import network as n
from . import structures as c
from .borders import Borders
from .fuse import absorbed, groups
from .in_lines import InLines
from .layout import Layout
from .network import Network, Node
from .pending import Pending
from .side_by_side import SideBySide
from .structures import Kind
from .tensor import (
    SLACK,
    Buffer,
    Positions,
    Slots,
    Tensor,
    dense_strides,
    rounded,
    spaced,
)


class Planner:
    """Lowers nodes one by one; `pending` is what it made."""

    def __init__(
        self, network: Network, rules: Rules, *, variant: int, side_by_side: bool = False
    ) -> None:
        self.network, self.rules, self.variant = network, rules, variant
        self.borders = Borders(network, side_by_side=side_by_side)
        self.layout: Layout = SideBySide(self) if side_by_side else InLines(self)
        self.groups = groups(network)
        self.slots = Slots()
        self.pending: list[Pending] = []
        self.values: dict[Node, Tensor] = {}
        self.inputs: list[Buffer] = []
        self.outputs: list[Tensor] = []
        skipped = absorbed(self.groups)
        for node in network.nodes:
            if node not in skipped:
                self.values[node] = self.lower(node)
        for node in network.outputs:
            self._return(node)

    # -- memory -----------------------------------------------------------------------------------

    def allocate(
        self,
        shape: Sequence[int],
        channel: int,
        like: Tensor | None = None,
        extent: int | None = None,
        *,
        tight: bool = False,
    ) -> Tensor:
        """A tensor in the arena: positions next to each other, one channel after another.

        Args:
            shape: its shape.
            channel: the dimension of the channels.
            like: a tensor of the same positions, whose distances it takes over.
            extent: positions of a channel, if they are known.
            tight: channels of one position lie next to each other; for kernels that write no more.

        """
        shape = tuple(shape)
        others = [dim for dim in range(len(shape)) if dim != channel]
        strides = list(dense_strides(shape, [channel, *others]))
        lead, border = 0, 0
        if like is not None:
            for dim in others:
                strides[dim] = like.strides[dim]
            lead, border = like.buffer.lead, like.buffer.extent
        if extent is None:
            found = Positions.of([shape[d] for d in others], [strides[d] for d in others])
            assert found is not None
            extent = found.extent
        step = 1 if tight and extent == 1 else spaced(rounded(extent) + lead)
        strides[channel] = step
        buffer = Buffer(shape[channel] * step + lead + SLACK, lead=lead, extent=border)
        return Tensor(buffer, lead, shape, tuple(strides))

    def images(self, node: Node, shape: Sequence[int]) -> Tensor:
        """A tensor [images, channels, height, width] on the grid of a node."""
        return self.layout.images(node, tuple(shape))

    def constant(self, value: Any) -> Tensor:
        """A tensor of fixed values in the usual order."""
        array = np.ascontiguousarray(value)
        padded = np.zeros(array.size + 16, array.dtype)
        padded[: array.size] = array.reshape(-1)
        buffer = self.slots.add(constant=padded, kind=str(array.dtype))
        return Tensor(buffer, 0, array.shape, dense_strides(array.shape))

    def emit(
        self,
        kind: Kind,
        make: Callable[[], c.Structure],
        reads: Sequence[Tensor],
        out: Tensor,
        **others: Any,
    ) -> None:
        """Adds an operation."""
        buffers = tuple(dict.fromkeys(one.buffer for one in reads))
        self.pending.append(Pending(kind, make, buffers, (out.buffer,), **others))

    def copy(self, source: Tensor, out: Tensor) -> Tensor:
        """Copies elements, whatever the strides."""
        shape, strides = merged(out.shape, [source.strides, out.strides])

        def make() -> c.Structure:
            views = [view_of(one, own) for one, own in zip((source, out), strides, strict=True)]
            return c.Copy(len(shape), c.DIMS(*shape), *views)

        self.emit(Kind.COPY, make, [source], out)
        return out

    def arranged(self, source: Tensor, channel: int) -> Tensor:
        """The tensor with its positions next to each other, copied if they are not."""
        if source.buffer.slot == 0 and source.positions(channel) is not None:
            return source
        return self.copy(source, self.allocate(source.shape, channel))

    def new(self, shape: Sequence[int], order: Sequence[int]) -> Tensor:
        """A tensor in the arena without gaps, the last dimension of the order innermost."""
        strides = dense_strides(shape, order)
        buffer = Buffer(int(np.prod(shape, dtype=np.int64)) + SLACK)
        return Tensor(buffer, 0, tuple(shape), strides)

    def compact(self, source: Tensor) -> Tensor:
        """A tensor like another in shape and order, without gaps."""
        dims = range(len(source.shape))
        return self.new(source.shape, sorted(dims, key=lambda dim: (-source.strides[dim], dim)))

    def like_order(self, shape: Sequence[int], sources: Sequence[Tensor]) -> Tensor:
        """A tensor whose dimensions lie in the order of the first of the sources in the arena."""
        source = next((one for one in sources if not one.buffer.slot), sources[0])
        strides = source.expand(shape).strides if len(source.shape) < len(shape) else source.strides
        dims = range(len(shape))
        channel, *_ = sorted(dims, key=lambda dim: (-strides[dim], dim)) or [0]
        others = sorted(dims, key=lambda dim: (-strides[dim], dim))[1:]
        if not shape:
            return self.new(shape, ())
        plain = self.new([shape[dim] for dim in others], range(len(others)))
        extent = max(1, int(np.prod([shape[dim] for dim in others], dtype=np.int64)))
        made = [0] * len(shape)
        for dim, stride in zip(others, plain.strides, strict=True):
            made[dim] = stride
        made[channel] = spaced(rounded(extent)) if extent > 1 else 1
        buffer = Buffer(shape[channel] * made[channel] + SLACK)
        return Tensor(buffer, 0, tuple(shape), tuple(made))

    def call(self, node: n.External, sources: Sequence[Tensor]) -> Tensor:
        """An operation that the caller runs; its result is a further buffer of the call."""
        buffer = self.slots.add(kind=node.kind)
        out = Tensor(buffer, 0, node.shape, dense_strides(node.shape))
        reads = tuple(dict.fromkeys(one.buffer for one in sources))
        self.pending.append(
            Pending(None, c.Structure, reads, (buffer,), external=node, tensors=tuple(sources))
        )
        return out

    def owned(self, source: Tensor) -> Tensor:
        """A tensor that kernels may read beyond its end: a tensor of the caller is copied."""
        if not source.buffer.slot or source.buffer.constant is not None:
            return source
        return self.copy(source, self.compact(source))

    # -- nodes ------------------------------------------------------------------------------------

    def lower(self, node: Node) -> Tensor:
        """The tensor of a node, and the operations that compute it."""
        rule = self.rules.get(type(node))
        if rule is None:
            raise UnplannedError(type(node).__name__)
        return rule(self, node)

    def _return(self, node: Node) -> None:
        value = self.values[node]
        if value.buffer.kind != "float32":
            if isinstance(node, n.Input):  # the caller's own numbers
                self.outputs.append(value)
                return
            raise UnplannedError(f"an output of type {value.buffer.kind}")
        out = Tensor(self.slots.add(), 0, value.shape, dense_strides(value.shape))
        self.outputs.append(self.copy(value, out))


class UnplannedError(ValueError):
    """An operation that the engine cannot plan."""


def only_in_lines(planner: Planner, what: str) -> None:
    """Refuses to plan what has no form for images side by side."""
    if isinstance(planner.layout, SideBySide):
        raise UnplannedError(f"{what} of images side by side")


def merged(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Dimensions by the last tensor's strides, neighbors merged where all tensors allow it.

    >>> merged((2, 3, 4), [(12, 4, 1), (12, 4, 1)])
    ([24], [[1], [1]])
    >>> merged((2, 3), [(1, 2), (3, 1)])
    ([2, 3], [[1, 2], [3, 1]])
    """
    order = [dim for dim in range(len(shape)) if shape[dim] != 1]
    order.sort(key=lambda dim: (-strides[-1][dim], dim))
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for dim in order:
        pairs = list(zip(steps, strides, strict=True))
        joins = bool(sizes) and all(own[-1] == one[dim] * shape[dim] for own, one in pairs)
        for own, one in pairs:
            own[-1:] = [one[dim]] if joins else [*own[-1:], one[dim]]
        sizes[-1:] = [sizes[-1] * shape[dim]] if joins else [*sizes[-1:], shape[dim]]
    if not sizes:
        return [1], [[1] for _ in strides]
    if len(sizes) > c.MOST_DIMS:
        raise UnplannedError(f"a tensor of {len(sizes)} dimensions that lie apart")
    return sizes, steps


def view_of(tensor: Tensor, strides: Sequence[int]) -> c.View:
    """The structure of C for a tensor whose dimensions were merged."""
    return c.View(tensor.buffer.slot, tensor.buffer.offset + tensor.offset, c.DIMS(*strides))


Rules = Mapping[type[Node], Callable[[Planner, Any], Tensor]]
"""How the nodes of each class are lowered."""
