"""A network as a file describes it: nodes whose sizes may depend on the caller's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Symbol:
    """A size that the caller chooses."""

    name: str
    least: int = 1
    most: int = 0
    """The largest size; 0 for no limit."""
    example: int = 1
    """Its size when the network was saved."""

    def check(self, size: int) -> None:
        """Raises ValueError if it cannot have this size."""
        if size < self.least or (self.most and size > self.most):
            limit = f"at least {self.least}" if not self.most else f"{self.least} to {self.most}"
            raise ValueError(f"the {self.name} must be {limit}, got {size}")


@dataclass(frozen=True)
class OperationRecord:
    """A node: its kind by name, the indices of those that it reads, and its fields."""

    kind: str
    reads: tuple[int, ...] = ()
    fields: Fields = field(default_factory=dict)
    """By name. Tensors are their numbers, sizes are `Size`."""


@dataclass(frozen=True)
class Sketch:
    """A whole network."""

    symbols: Sequence[Symbol]
    records: Sequence[OperationRecord]
    outputs: Sequence[tuple[int, str]]
    """Index of the node, and its name."""
    tensors: Mapping[str, Any]
    """The weights by name: arrays, or `KeptArray`."""

    @property
    def inputs(self) -> list[OperationRecord]:
        """The nodes that the caller passes, in order."""
        return [one for one in self.records if one.kind == "input"]
