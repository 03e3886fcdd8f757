"""Places each tensor: in the caller's memory, in flash, or in an arena shared by lifetime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from sparsegate_runtime.engine import network as n

ALIGNMENT = 4
Bytes = Callable[[n.Node], int]


@dataclass(frozen=True)
class Address:
    """Where the first element of a tensor lies."""

    memory: str
    """`arena`, or the name of another pointer in C."""
    offset: int = 0
    """In bytes from the beginning of the arena, in elements elsewhere."""


@dataclass(frozen=True)
class Arena:
    """The places of all tensors and of scratch memory, and the size of the arena."""

    places: Mapping[n.Node, Address]
    views: frozenset[n.Node]
    """Tensors whose elements lie in another one already."""
    scratch: Mapping[n.Node, int]
    num_bytes: int


@dataclass(eq=False)
class ArenaBlock:
    """Bytes that are used from one step to another."""

    size: int
    first: int
    last: int
    offset: int = 0


def plan(
    network: n.Network, fixed: Mapping[n.Node, str], width: Bytes, scratch: Mapping[n.Node, int]
) -> Arena:
    """Plans the memory of a network whose nodes run in order.

    Args:
        network: the network.
        fixed: tensors that lie elsewhere: inputs, constants, and the outputs that steps write.
        width: bytes of an element of a node.
        scratch: bytes that steps use in addition to their tensors.

    """
    owners = _owners(network, fixed, width)
    blocks = _blocks(network, owners, fixed, width)
    extra = {
        node: ArenaBlock(scratch[node], at, at)
        for at, node in enumerate(network.nodes)
        if scratch.get(node)
    }
    size = placed([*blocks.values(), *extra.values()])
    places = {}
    for node, (owner, offset) in owners.items():
        if owner in fixed:
            places[node] = Address(fixed[owner], offset)
        else:
            places[node] = Address("arena", blocks[owner].offset + offset * width(node))
    views = frozenset(node for node in owners if _view(node, owners) is not None)
    return Arena(places, views, {node: block.offset for node, block in extra.items()}, size)


def _blocks(
    network: n.Network,
    owners: Mapping[n.Node, tuple[n.Node, int]],
    fixed: Mapping[n.Node, str],
    width: Bytes,
) -> dict[n.Node, ArenaBlock]:
    """The bytes of each tensor in the arena, from the step that writes it to the last reader."""
    blocks: dict[n.Node, ArenaBlock] = {}
    for at, node in enumerate(network.nodes):
        owner = owners[node][0]
        if owner not in fixed and owner not in blocks:
            blocks[owner] = ArenaBlock(prod(owner.shape) * width(owner), at, at)
        for used in (node, *node.inputs):
            if (block := blocks.get(owners[used][0])) is not None:
                block.last = max(block.last, at)
    for node in network.outputs:
        if (block := blocks.get(owners[node][0])) is not None:
            block.last = len(network.nodes)
    return blocks


def placed(blocks: Sequence[ArenaBlock]) -> int:
    """Gives blocks their offsets, the largest first; returns the size of the arena.

    >>> blocks = [ArenaBlock(40, 0, 1), ArenaBlock(20, 1, 2), ArenaBlock(38, 2, 3)]
    >>> placed(blocks), [block.offset for block in blocks]
    (60, [0, 40, 0])
    """
    done: list[ArenaBlock] = []
    for block in sorted(blocks, key=lambda one: (-one.size, one.first)):
        at = 0
        for other in sorted(done, key=lambda one: one.offset):
            is_apart = other.last < block.first or block.last < other.first
            if not is_apart and other.offset < at + block.size and at < other.offset + other.size:
                at = -(-(other.offset + other.size) // ALIGNMENT) * ALIGNMENT
        block.offset = at
        done.append(block)
    return max((block.offset + block.size for block in done), default=0)


def _owners(
    network: n.Network, fixed: Mapping[n.Node, str], width: Bytes
) -> dict[n.Node, tuple[n.Node, int]]:
    """The node in whose memory each tensor lies, and the element at which it begins."""
    last: dict[n.Node, n.Node | None] = {}
    found: dict[n.Node, tuple[n.Node, int]] = {}
    for node in network.nodes:
        found[node] = _view(node, found) or (node, 0)
    for node in network.nodes:
        for read in node.inputs:
            last[found[read][0]] = node
    for node in network.outputs:
        last[found[node][0]] = None
    for node in network.nodes:  # a function of elements may replace what it reads
        source = _replaceable(node, fixed, width)
        if source is None or node in fixed or found[node][0] is not node:
            continue
        owner, offset = found[source]
        is_whole = offset == 0 and prod(owner.shape) == prod(node.shape)
        is_free = owner not in fixed and last.get(owner) is node
        alike = all(one.shape == node.shape for one in node.inputs if found[one][0] is owner)
        if is_whole and is_free and alike:
            _move(found, last, node, owner)
    return found


def _move(
    found: dict[n.Node, tuple[n.Node, int]],
    last: dict[n.Node, n.Node | None],
    node: n.Node,
    owner: n.Node,
) -> None:
    for each, (old, offset) in found.items():
        if old is node:
            found[each] = (owner, offset)
    last[owner] = last.get(node)


def _view(node: n.Node, found: Mapping[n.Node, tuple[n.Node, int]]) -> tuple[n.Node, int] | None:
    """The place of a tensor whose elements lie in another one in the same order."""
    if not isinstance(node, n.Reshape | n.Slice | n.Permute | n.Expand):
        return None
    (read,) = node.inputs
    owner, offset = found[read]
    if isinstance(node, n.Reshape):
        return owner, offset
    if isinstance(node, n.Expand):
        return (owner, offset) if prod(node.shape) == prod(read.shape) else None
    if isinstance(node, n.Permute):
        real = [dim for dim in node.dimensions if read.shape[dim] > 1]
        return (owner, offset) if real == sorted(real) else None
    is_whole = prod(node.shape[: node.dimension]) == 1 and node.step == 1
    stride = prod(node.shape[node.dimension + 1 :])
    return (owner, offset + node.start * stride) if is_whole else None


def _replaceable(node: n.Node, fixed: Mapping[n.Node, str], width: Bytes) -> n.Node | None:
    """The first input of a function of elements that has as many elements as its result."""
    if not isinstance(node, n.Map):
        return None
    fits = (
        one
        for one in node.inputs
        if one.shape == node.shape and width(one) == width(node) and one not in fixed
    )
    return next(fits, None)
