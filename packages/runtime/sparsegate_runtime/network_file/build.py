"""Makes the engine's network from a sketch and the sizes of the inputs, and checks every shape."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from sparsegate_runtime.engine import network as n

from .kinds import TYPES
from .sizes import Shape, Size
from .sketch import OperationRecord, Sketch

MOST_DIMS = 6
"""Dimensions of a tensor that the engine computes with."""
KINDS = {"F32": "float32", "I64": "int64", "BOOL": "bool"}


class Builder:
    """Makes the nodes of a sketch for inputs of certain sizes."""

    def __init__(self, sketch: Sketch, sizes: Mapping[str, int], most: int) -> None:
        self.sketch, self.most = sketch, most
        self.symbols = [sizes[symbol.name] for symbol in sketch.symbols]
        self.tensors = list(sketch.tensors.values())
        self.names = list(sketch.tensors)
        self.nodes: list[n.Node] = []
        self.kinds: dict[n.Node, str] = {}
        """The types of values that are not float32."""
        self._read: list[n.Node] = []

    def build(self) -> n.Network:
        """All nodes.

        Raises:
            ValueError: shapes do not agree, or a tensor takes too much memory.

        """
        from .build_layers import LAYERS
        from .build_moves import MOVES

        rules = {**LAYERS, **MOVES}
        for index, record in enumerate(self.sketch.records):
            self._read = [self.nodes[read] for read in record.reads]
            try:
                made = rules[record.kind](self, record, *self._read)
                self._check(made)
            except ValueError as error:
                raise ValueError(f"node {index} ({record.kind}): {error}") from error
            self.nodes.append(made)
        outputs = tuple(self.nodes[index] for index, _ in self.sketch.outputs)
        return n.Network(n.needed(self.nodes, outputs), outputs)

    def _check(self, node: n.Node) -> None:
        need(
            len(node.shape) <= MOST_DIMS,
            f"a tensor has {len(node.shape)} dimensions, at most {MOST_DIMS}",
        )
        need(min(node.shape, default=1) > 0, f"a tensor of shape {node.shape} is empty")
        self.fits(prod(node.shape))

    def fits(self, elements: int) -> None:
        """Raises ValueError if a tensor of this size is too large."""
        if elements > self.most:
            raise ValueError(
                f"a tensor takes {4 * elements:,} bytes, more than the limit of "
                f"{4 * self.most:,}; raise limit= to run"
            )

    # -- what rules ask for -----------------------------------------------------------------------

    def size(self, size: Size) -> int:
        """A size, which may depend on the first node that is read."""
        first = self._read[0].shape if self._read else ()
        return size.value([*self.symbols, *first])

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """All sizes of a tensor."""
        return tuple(self.size(one) for one in shape)

    def index(self) -> int:
        """The number of inputs so far."""
        return sum(isinstance(one, n.Input) for one in self.nodes)

    def floats(self, *nodes: n.Node) -> None:
        """Raises ValueError unless these are tensors of float32."""
        for node in nodes:
            kind = self.kinds.get(node, "float32")
            need(kind == "float32", f"it reads a tensor of type {kind}, expected float32")

    def array(self, number: int, rank: int, kind: str = "float32") -> Any:
        """A tensor of the weights."""
        found = self.tensors[number]
        need(
            found.ndim == rank and str(found.dtype) == kind,
            f"{self.names[number]} has {found.ndim} dimensions of {found.dtype}, expected {rank} "
            f"of {kind}",
        )
        need(min(found.shape, default=1) > 0, f"{self.names[number]} is empty")
        return found

    def vector(self, number: int | None, size: int) -> Any:
        """A vector of the weights, or None."""
        if number is None:
            return None
        found = np.asarray(self.array(number, 1))
        need(len(found) == size, f"{self.names[number]} has {len(found)} elements, expected {size}")
        return found

    def title(self, number: int) -> str:
        """The name of a layer, by its weight."""
        return self.names[number].removesuffix(".weight")


def need(holds: bool, words: str) -> None:
    """Raises ValueError with these words unless something holds."""
    if not holds:
        raise ValueError(words)


def take_input(builder: Builder, record: OperationRecord) -> n.Node:
    """A tensor of the caller."""
    fields = record.fields
    kind = KINDS[TYPES[fields["type"]]]
    need(
        all(
            variable < len(builder.symbols) for one in fields["shape"] for variable in one.variables
        ),
        "the shape of an input depends on a tensor",
    )
    made = n.Input(
        shape=builder.shape(fields["shape"]), index=builder.index(), kind=kind, name=fields["name"]
    )
    if kind != "float32":
        builder.kinds[made] = kind
    return made
