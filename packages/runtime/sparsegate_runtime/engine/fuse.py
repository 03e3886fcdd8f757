"""Finds elementwise functions that can run in one pass, or at the end of a layer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .functions import Function
from .network import Conv, Linear, Map, Network, Node, Permute
from .structures import MOST_CODE, MOST_INPUTS, MOST_REGISTERS, Instruction


@dataclass(eq=False)
class Group:
    """Maps that are computed in one pass, the last of them for others to read."""

    maps: list[Map]
    leaves: list[Node]
    """What they read from outside."""
    base: Linear | Conv | None = None
    """The layer whose sums they finish."""
    permuted: tuple[int, ...] = field(default=())
    """The dimensions of the base in the order that the maps see."""

    @property
    def out(self) -> Map:
        """The map that others read."""
        return self.maps[-1]


def groups(network: Network) -> dict[Node, Group]:
    """The group of every map that others read, by that map."""
    readers = Counter(read for node in network.nodes for read in node.inputs)
    outputs = set(network.outputs)
    found: dict[Node, Group] = {}
    for node in network.nodes:
        if not isinstance(node, Map):
            continue
        group = Group([node], list(dict.fromkeys(node.inputs)))
        for read in node.inputs:
            other = found.get(read)
            is_alone = readers[read] == node.inputs.count(read) and read not in outputs
            if other and is_alone and read.shape == node.shape and _fits(group, other):
                group = _merged(group, other)
                del found[read]
        found[node] = group
    for group in found.values():
        _take_base(group, readers, outputs)
    return found


def without_sum(group: Group) -> tuple[Node, Group | None] | None:
    """What is added to the sums of the base before all else, and the maps that follow; or None.

    Nothing but this sum may read the base.
    """
    base = group.leaves[0]
    readers = [one for one in group.maps if base in one.inputs]
    if len(readers) != 1 or readers[0].function != Function.ADD:
        return None
    (add,) = readers
    others = [one for one in add.inputs if one is not base]
    if len(others) != 1 or others[0] in group.maps:
        return None
    maps = [one for one in group.maps if one is not add]
    if not maps:
        return others[0], None
    read = {node for one in maps for node in one.inputs}
    leaves = [add, *(one for one in group.leaves[1:] if one in read)]
    return others[0], Group(maps, leaves, group.base, group.permuted)


def _fits(one: Group, other: Group) -> bool:
    made = _merged(one, other)
    return (
        len(made.leaves) <= MOST_INPUTS - 1
        and len(made.maps) <= MOST_CODE - 4
        and _registers(made) <= MOST_REGISTERS
    )


def _merged(group: Group, other: Group) -> Group:
    leaves = [leaf for leaf in group.leaves if leaf is not other.out]
    return Group([*other.maps, *group.maps], list(dict.fromkeys([*leaves, *other.leaves])))


def _registers(group: Group) -> int:
    return len(compiled(group, group.leaves)[2])


def _take_base(group: Group, readers: Counter[Node], outputs: set[Node]) -> None:
    """Finishes the sums of a layer that nothing else reads, the last one if there are several."""
    for leaf in group.leaves:
        node, order = leaf, tuple(range(len(leaf.shape)))
        uses = sum(one.inputs.count(leaf) for one in group.maps)
        while isinstance(node, Permute) and readers[node] == (uses if node is leaf else 1):
            if node in outputs:
                break
            order = tuple(node.dimensions[dim] for dim in order)
            node = node.inputs[0]
        is_alone = readers[node] == (uses if node is leaf else 1) and node not in outputs
        is_whole = leaf.shape == group.out.shape
        if isinstance(node, Linear | Conv) and is_alone and is_whole:
            group.base, group.permuted = node, order
            group.leaves = [leaf, *(one for one in group.leaves if one is not leaf)]


def compiled(group: Group, leaves: list[Node]) -> tuple[list[Instruction], int, set[int]]:
    """The instructions of a group, the register of the result, and all registers in use."""
    register = {leaf: index for index, leaf in enumerate(leaves)}
    uses = Counter(read for one in group.maps for read in one.inputs)
    free: list[int] = []
    used = set(register.values())
    code = []
    for one in group.maps:
        sources = [register[read] for read in one.inputs]
        for read in one.inputs:
            uses[read] -= 1
            if not uses[read]:
                free.append(register[read])
        to = min(free) if free else max(used, default=-1) + 1
        if free:
            free.remove(to)
        used.add(to)
        register[one] = to
        second = sources[1] if len(sources) > 1 else 0
        code.append(Instruction(int(one.function), to, sources[0], second, one.x, one.y))
    return code, register[group.out], used


def absorbed(found: dict[Node, Group]) -> set[Node]:
    """The nodes that are computed as part of a group, its last map left out."""
    made: set[Node] = set()
    for group in found.values():
        made.update(group.maps[:-1])
        if group.base is not None:
            made.add(group.base)
            node = group.leaves[0]
            while node is not group.base:
                made.add(node)
                node = node.inputs[0]
    return made
